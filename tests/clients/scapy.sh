#!/bin/sh
# Checks the invariant CRCs of a capture of RoCEv2 packets with scapy.
#
#   tests/clients/scapy.sh FOLDER CAPTURE
#
# FOLDER keeps the virtual environment for the next time. Exits 77 with a line that says why if this
# machine has no scapy, and prints how many packets agree otherwise.
set -eu

version=2.8.0

folder=$1
shift
here=$(cd "$(dirname "$0")" && pwd)

skip() {
    echo "skipped: $1"
    exit 77
}

command -v python3 >/dev/null || skip "python3 is not installed"
python3 -c 'import venv, ensurepip' 2>/dev/null || skip "python3 cannot make virtual environments"

mkdir -p "$folder"
environment=$folder/environment
if ! [ -e "$environment/complete-$version" ]; then
    rm -rf "$environment"
    python3 -m venv "$environment" || skip "no virtual environment could be made"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
        "scapy==$version" >"$folder/pip.log" 2>&1 ||
        skip "pip could not install scapy $version (see $folder/pip.log)"
    touch "$environment/complete-$version"
fi

exec "$environment/bin/python" "$here/scapy_icrc.py" "$@"
