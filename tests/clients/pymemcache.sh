#!/bin/sh
# Runs pymemcache's own integration tests against a memcached at HOST PORT.
#
#   tests/clients/pymemcache.sh HOST PORT FOLDER [pytest arguments]
#
# or a program that uses pymemcache, with HOST, PORT and the arguments:
#
#   tests/clients/pymemcache.sh HOST PORT FOLDER --program FILE [arguments]
#
# FOLDER keeps the download, and beside it is the virtual environment, for the next time. Exits 77
# with a line that says why if this machine cannot run them, and as pytest does otherwise.
set -eu

version=4.0.0
sha256=27bf9bd1bbc1e20f83633208620d56de50f14185055e49504f4f5e94e94aff94

host=$1 port=$2 folder=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/environment.sh"

share_environment
unpack_source pymemcache "pymemcache-$version" pymemcache/test/test_integration.py

if [ "${1-}" = --program ]; then
    program=$2
    shift 2
    export PYTHONPATH="$source"
    exec "$environment/bin/python" "$program" "$host" "$port" "$@"
fi

# `addopts` of the project asks for coverage and for unit tests alone.
cd "$source"
exec "$environment/bin/python" -m pytest --override-ini addopts= -p no:cacheprovider \
    -m integration -q "--server=$host" "--port=$port" "$@" pymemcache/test
