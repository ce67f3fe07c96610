#!/bin/sh
# Checks pages of metrics with parsers of other projects.
#
#   tests/clients/openmetrics.sh FOLDER OPENMETRICS_PAGE [TEXT_PAGE]
#
# The virtual environment is kept beside FOLDER for the next time. The pages are files, in the
# format OpenMetrics and in the older text format. `promtool check metrics` reads the second, where
# it is installed. Exits 77 with a line that says why if this machine has no parser.
set -eu

folder=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
. "$here/environment.sh"

if command -v promtool >/dev/null && [ $# -gt 1 ]; then
    promtool check metrics <"$2"
    echo "promtool finds nothing"
else
    echo "skipped: promtool is not installed"
fi

share_environment

exec "$environment/bin/python" "$here/openmetrics.py" "$@"
