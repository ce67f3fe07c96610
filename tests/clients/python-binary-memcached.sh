#!/bin/sh
# Runs python-binary-memcached's own tests against a memcached at HOST PORT.
#
#   tests/clients/python-binary-memcached.sh HOST PORT FOLDER [pytest arguments]
#
# FOLDER keeps the download, and beside it is the virtual environment, for the next time. Exits 77
# with a line that says why if this machine cannot run them, and as pytest does otherwise.
set -eu

version=0.31.4
sha256=f183bc67fd218c01ebc0bf4e9929a210dd5aa07fda53d5b627d0b443b76e2818

host=$1 port=$2 folder=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/environment.sh"

share_environment
unpack_source python-binary-memcached "python_binary_memcached-$version" \
    test/test_simple_functions.py

# The tests know one Unix socket and one port.
cd "$source"
sed -i "s|'/.*/memcached.sock'|'$host:$port'|; s|'{}:11211'|'{}:$port'|" test/*.py
sed -i "s|Protocol(os.environ\['MEMCACHED_HOST'\])|Protocol('$host:$port')|" test/test_auth.py
export MEMCACHED_HOST="$host"
# A second server with TLS, and a Unix socket of that name, are not here.
exec "$environment/bin/python" -m pytest -p no:cacheprovider -q --ignore test/test_tls.py "$@" test
