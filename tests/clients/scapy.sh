#!/bin/sh
# Checks the invariant CRCs of a capture of RoCEv2 packets with scapy.
#
#   tests/clients/scapy.sh FOLDER CAPTURE
#
# The virtual environment is kept beside FOLDER for the next time. Exits 77 with a line that says
# why if this machine has no scapy, and prints how many packets agree otherwise.
set -eu

folder=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
. "$here/environment.sh"

share_environment

exec "$environment/bin/python" "$here/scapy_icrc.py" "$@"
