#!/bin/sh
# Checks memjs, a client for Node.js that speaks the binary protocol, with a memcached at HOST PORT.
#
#   tests/clients/memjs.sh HOST PORT FOLDER
#
# FOLDER keeps the package for the next time. Exits 77 with a line that says why if this machine
# cannot run it. The last line of the output counts the checks that passed.
set -eu

version=1.3.2

host=$1 port=$2 folder=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/environment.sh"

command -v node >/dev/null || skip "node is not installed"
command -v npm >/dev/null || skip "npm is not installed"
mkdir -p "$folder"
if ! [ -e "$folder/complete-$version" ]; then
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" \
        "memjs@$version" >"$folder/npm.log" 2>&1 ||
        skip "npm could not install memjs $version (see $folder/npm.log)"
    touch "$folder/complete-$version"
fi
NODE_PATH=$folder/node_modules exec node "$here/memjs_checks.js" "$host:$port"
