#!/bin/sh
# Scrapes a memcached at HOST PORT by Prometheus's memcached_exporter.
#
#   tests/clients/memcached-exporter.sh HOST PORT FOLDER
#
# FOLDER keeps the program for the next time. Exits 77 with a line that says why if this machine
# cannot run it. The last line of the output counts the metrics, if the exporter has met no error.
set -eu

version=v0.16.0

host=$1 port=$2 folder=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/environment.sh"

command -v python3 >/dev/null || skip "python3 is not installed"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
program=$folder/memcached_exporter-$version
if ! [ -x "$program" ]; then
    download_module github.com/prometheus/memcached_exporter
    (cd "$module" && go build -o "$program" ./cmd/memcached_exporter) >"$folder/go.log" 2>&1 ||
        skip "go could not build memcached_exporter $version (see $folder/go.log)"
fi
exec python3 "$here/memcached_exporter_checks.py" "$host" "$port" "$folder" "$program"
