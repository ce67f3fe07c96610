#!/bin/sh
# Runs python-binary-memcached's own tests against a memcached at HOST PORT.
#
#   tests/clients/python-binary-memcached.sh HOST PORT FOLDER [pytest arguments]
#
# FOLDER keeps the download and the virtual environment for the next time. Exits 77 with a line
# that says why if this machine cannot run them, and as pytest does otherwise.
set -eu

version=0.31.4
sha256=f183bc67fd218c01ebc0bf4e9929a210dd5aa07fda53d5b627d0b443b76e2818

host=$1 port=$2 folder=$3
shift 3

skip() {
    echo "skipped: $1"
    exit 77
}

command -v python3 >/dev/null || skip "python3 is not installed"
python3 -c 'import venv, ensurepip' 2>/dev/null || skip "python3 cannot make virtual environments"

mkdir -p "$folder"
source=$folder/python_binary_memcached-$version
environment=$folder/environment

if ! [ -e "$environment/complete" ]; then
    rm -rf "$environment"
    python3 -m venv "$environment" || skip "no virtual environment could be made"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
        pytest==8.4.2 six==1.17.0 uhashring==2.3 setuptools==80.9.0 >"$folder/pip.log" 2>&1 ||
        skip "pip could not install the test tools (see $folder/pip.log)"
    touch "$environment/complete"
fi

archive=$source.tar.gz
if ! [ -e "$archive" ]; then
    "$environment/bin/pip" download --quiet --disable-pip-version-check --no-deps \
        --no-build-isolation --no-binary :all: --dest "$folder" \
        "python-binary-memcached==$version" >"$folder/pip.log" 2>&1 ||
        skip "pip could not download python-binary-memcached $version (see $folder/pip.log)"
fi
echo "$sha256  $archive" | sha256sum --check --quiet
rm -rf "$source"
tar -xzf "$archive" -C "$folder"
[ -e "$source/test/test_simple_functions.py" ] || {
    echo "python-binary-memcached $version came without its tests"
    exit 1
}

# The tests know one Unix socket and one port.
cd "$source"
sed -i "s|'/.*/memcached.sock'|'$host:$port'|; s|'{}:11211'|'{}:$port'|" test/*.py
sed -i "s|Protocol(os.environ\['MEMCACHED_HOST'\])|Protocol('$host:$port')|" test/test_auth.py
export MEMCACHED_HOST="$host"
# A second server with TLS, and a Unix socket of that name, are not here.
exec "$environment/bin/python" -m pytest -p no:cacheprovider -q --ignore test/test_tls.py "$@" test
