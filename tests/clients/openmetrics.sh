#!/bin/sh
# Checks pages of metrics with parsers of other projects.
#
#   tests/clients/openmetrics.sh FOLDER OPENMETRICS_PAGE [TEXT_PAGE]
#
# FOLDER keeps the virtual environment for the next time. The pages are files, in the format
# OpenMetrics and in the older text format. `promtool check metrics` reads the second, where it is
# installed. Exits 77 with a line that says why if this machine has no parser.
set -eu

version=0.26.0

folder=$1
shift
here=$(cd "$(dirname "$0")" && pwd)

skip() {
    echo "skipped: $1"
    exit 77
}

if command -v promtool >/dev/null && [ $# -gt 1 ]; then
    promtool check metrics <"$2"
    echo "promtool finds nothing"
else
    echo "skipped: promtool is not installed"
fi

command -v python3 >/dev/null || skip "python3 is not installed"
python3 -c 'import venv, ensurepip' 2>/dev/null || skip "python3 cannot make virtual environments"

mkdir -p "$folder"
environment=$folder/environment
if ! [ -e "$environment/complete-$version" ]; then
    rm -rf "$environment"
    python3 -m venv "$environment" || skip "no virtual environment could be made"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
        "prometheus_client==$version" >"$folder/pip.log" 2>&1 ||
        skip "pip could not install prometheus_client $version (see $folder/pip.log)"
    touch "$environment/complete-$version"
fi

exec "$environment/bin/python" "$here/openmetrics.py" "$@"
