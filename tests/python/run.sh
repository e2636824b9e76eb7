#!/bin/sh
# tests/python/run.sh LIBRARY PLANS [ARGUMENT...]: pytest with these arguments and the package as it lies in the tree. PLANS: the tool
# leaderboard_plans, or none. Exits with 77 (skipped) where no interpreter has what the tests need. CONVOY_PYTHON names one to try first.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
library=$1 plans=${2#none}
shift 2
for python in ${CONVOY_PYTHON:-} python3 /usr/bin/python3; do
    if "$python" -c 'import numpy, pytest, scipy' 2>/dev/null; then
        cd "$root"
        export CONVOY_LIBRARY="$library" CONVOY_LEADERBOARD_PLANS="$plans" PYTHONPATH="$root/python" PYTHONDONTWRITEBYTECODE=1
        exec "$python" -m pytest -q -p no:cacheprovider -rs "$@"
    fi
done
echo "no python3 with numpy, scipy and pytest"
exit 77
