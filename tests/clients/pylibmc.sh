#!/bin/sh
# Checks pylibmc, which is libmemcached for Python, with a memcached at HOST PORT, in its text and
# its binary mode.
#
#   tests/clients/pylibmc.sh HOST PORT FOLDER
#
# The virtual environment is kept beside FOLDER for the next time. Exits 77 with a line that says
# why if this machine cannot run it. The last line of the output counts the checks that passed.
set -eu

version=1.6.3

host=$1 port=$2 folder=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/environment.sh"

make_environment pylibmc-environment "pylibmc $version" "pylibmc==$version"
exec "$environment/bin/python" "$here/pylibmc_checks.py" "$host" "$port"
