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
. "$here/environment.sh"

make_environment "complete-$version" "scapy $version" "scapy==$version"

exec "$environment/bin/python" "$here/scapy_icrc.py" "$@"
