#!/bin/sh
# tests/python/run.sh LIBRARY [PLANS]: pytest on python/tests with the package as it lies in the tree. Exits with 77 (skipped) where
# no interpreter has what the tests need. CONVOY_PYTHON names one to try first.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
for python in ${CONVOY_PYTHON:-} python3 /usr/bin/python3; do
    if "$python" -c 'import numpy, pytest, scipy' 2>/dev/null; then
        cd "$root"
        export CONVOY_LIBRARY="$1" CONVOY_LEADERBOARD_PLANS="${2:-}" PYTHONPATH="$root/python" PYTHONDONTWRITEBYTECODE=1
        exec "$python" -m pytest -q -p no:cacheprovider -rs python/tests
    fi
done
echo "no python3 with numpy, scipy and pytest"
exit 77
