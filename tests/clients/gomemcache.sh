#!/bin/sh
# Runs gomemcache's own tests against a memcached at HOST PORT.
#
#   tests/clients/gomemcache.sh HOST PORT FOLDER
#
# FOLDER keeps the source for the next time. Exits 77 with a line that says why if this machine
# cannot run them. The last line of the output counts the tests that passed.
set -eu

version=v0.0.0-20260422231931-4d751bb6e37c

host=$1 port=$2 folder=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/environment.sh"

download_module github.com/bradfitz/gomemcache
source=$folder/source
rm -rf "$source"
cp -R "$module" "$source"
chmod -R u+w "$source"
sed -i "s|\"localhost:11211\"|\"$host:$port\"|" "$source/memcache/memcache_test.go"

# The others start a memcached themselves, or need no server.
cd "$source"
go test -count=1 -v -run '^TestLocalhost$' ./memcache >"$folder/test.log" 2>&1 || {
    cat "$folder/test.log"
    exit 1
}
# It is one function, which does not name its steps: each failure would end it.
if grep -q SKIP "$folder/test.log"; then
    cat "$folder/test.log"
    exit 1
fi
echo "$(grep -c -- '--- PASS' "$folder/test.log") passed"
