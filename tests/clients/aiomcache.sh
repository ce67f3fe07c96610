#!/bin/sh
# Checks aiomcache, a client for asyncio, with a memcached at HOST PORT.
#
#   tests/clients/aiomcache.sh HOST PORT FOLDER
#
# The virtual environment is kept beside FOLDER for the next time. Exits 77 with a line that says
# why if this machine cannot run it. The last line of the output counts the checks that passed.
set -eu

host=$1 port=$2 folder=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/environment.sh"

share_environment
exec "$environment/bin/python" "$here/aiomcache_checks.py" "$host" "$port"
