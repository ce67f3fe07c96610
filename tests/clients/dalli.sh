#!/bin/sh
# Checks dalli, a client for Ruby, with a memcached at HOST PORT, in its binary and its meta mode.
#
#   tests/clients/dalli.sh HOST PORT
#
# Exits 77 with a line that says why if this machine cannot run it. The last line of the output
# counts the checks that passed.
set -eu

host=$1 port=$2
here=$(cd "$(dirname "$0")" && pwd)
. "$here/environment.sh"

command -v ruby >/dev/null || skip "ruby is not installed"
ruby -e 'require "dalli"' 2>/dev/null || skip "dalli is not installed (on Debian: ruby-dalli)"
exec ruby "$here/dalli_checks.rb" "$host:$port"
