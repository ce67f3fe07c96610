#!/bin/sh
# Checks twemproxy (nutcracker) in front of a memcached at HOST PORT, with its text commands.
#
#   tests/clients/nutcracker.sh HOST PORT FOLDER
#
# FOLDER has the proxy's configuration and log. Exits 77 with a line that says why if this machine
# cannot run it. The last line of the output counts the checks that passed.
set -eu

host=$1 port=$2 folder=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/environment.sh"

PATH=$PATH:/usr/sbin
command -v nutcracker >/dev/null || skip "nutcracker is not installed"
command -v python3 >/dev/null || skip "python3 is not installed"
mkdir -p "$folder"
exec python3 "$here/nutcracker_checks.py" "$host" "$port" "$folder"
