#!/bin/sh
# Runs python-memcached's own tests against a memcached at HOST PORT.
#
#   tests/clients/python-memcached.sh HOST PORT FOLDER [pytest arguments]
#
# FOLDER keeps the download, and beside it is the virtual environment, for the next time. Exits 77
# with a line that says why if this machine cannot run them, and as pytest does otherwise.
set -eu

version=1.62
sha256=0285470599b7f593fbf3bec084daa1f483221e68c1db2cf1d846a9f7c2655103

host=$1 port=$2 folder=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/environment.sh"

share_environment
unpack_source python-memcached "python-memcached-$version" tests/test_memcache.py

cd "$source"
sed -i "s|127.0.0.1:11211|$host:$port|" tests/*.py
# The archive comes without this module of its tests.
cat >tests/__init__.py </dev/null
cat >tests/utils.py <<'END'
import contextlib
import io


@contextlib.contextmanager
def captured_stderr():
    with contextlib.redirect_stderr(io.StringIO()) as captured:
        yield captured
END
exec "$environment/bin/python" -m pytest -p no:cacheprovider -q "$@" tests
