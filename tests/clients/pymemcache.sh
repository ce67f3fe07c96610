#!/bin/sh
# Runs pymemcache's own integration tests against a memcached at HOST PORT.
#
#   tests/clients/pymemcache.sh HOST PORT FOLDER [pytest arguments]
#
# or a program that uses pymemcache, with HOST, PORT and the arguments:
#
#   tests/clients/pymemcache.sh HOST PORT FOLDER --program FILE [arguments]
#
# FOLDER keeps the download and the virtual environment for the next time. Exits 77 with a line
# that says why if this machine cannot run them, and as pytest does otherwise.
set -eu

version=4.0.0
sha256=27bf9bd1bbc1e20f83633208620d56de50f14185055e49504f4f5e94e94aff94

host=$1 port=$2 folder=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)

skip() {
    echo "skipped: $1"
    exit 77
}

command -v python3 >/dev/null || skip "python3 is not installed"
python3 -c 'import venv, ensurepip' 2>/dev/null || skip "python3 cannot make virtual environments"

mkdir -p "$folder"
source=$folder/pymemcache-$version
environment=$folder/environment

if ! [ -e "$environment/complete" ]; then
    rm -rf "$environment"
    python3 -m venv "$environment" || skip "no virtual environment could be made"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
        --requirement "$here/requirements.txt" >"$folder/pip.log" 2>&1 ||
        skip "pip could not install the test tools (see $folder/pip.log)"
    touch "$environment/complete"
fi

archive=$source.tar.gz
if ! [ -e "$archive" ]; then
    "$environment/bin/pip" download --quiet --disable-pip-version-check --no-deps \
        --no-binary :all: --dest "$folder" "pymemcache==$version" >"$folder/pip.log" 2>&1 ||
        skip "pip could not download pymemcache $version (see $folder/pip.log)"
fi
echo "$sha256  $archive" | sha256sum --check --quiet
rm -rf "$source"
tar -xzf "$archive" -C "$folder"
[ -e "$source/pymemcache/test/test_integration.py" ] || {
    echo "pymemcache $version came without its tests"
    exit 1
}

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
