#!/bin/sh
# tests/python/wheel.sh FOLDER: builds sdist and wheel, installs the wheel into a clean virtual environment in FOLDER with all
# optional packages, and runs the tests there: what a user of pip gets. Needs PyPI. CMAKE_ARGS reaches the build.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python3 -m venv "$folder/venv"
bin=$folder/venv/bin
"$bin/pip" install -q --disable-pip-version-check build
rm -rf "$folder/dist"
"$bin/python" -m build -o "$folder/dist" "$root" >"$folder/build.log" 2>&1 || { tail -40 "$folder/build.log"; exit 1; }
wheel=$(ls "$folder"/dist/*.whl)
echo "built $(basename "$wheel") from the sdist"
case $wheel in *-py3-none-*) ;; *) echo "the wheel is for one version of Python: expected py3-none"; exit 1 ;; esac
contents=$("$bin/python" -m zipfile -l "$wheel" | awk 'NR > 1 { print $1 }')
for file in convoy/libconvoy.so convoy/py.typed convoy/report.py convoy/leaderboard/kernels/chain/slide.cu licenses/LICENSE; do
    echo "$contents" | grep -q "$file\$" || { echo "the wheel lacks $file"; exit 1; }
done
if echo "$contents" | grep -E '^(lib|include|share|bin)/|/tests?/|\.(o|a|pyc)$'; then
    echo "these have no place in a wheel"
    exit 1
fi
"$bin/pip" install -q --disable-pip-version-check "$wheel[test,dask,report]" ${CONVOY_WHEEL_WITH:-}
cd "$folder" # away from the tree: the installed package is what is tested
env -u PYTHONPATH -u CONVOY_LIBRARY "$bin/python" -m pytest -q -p no:cacheprovider -rs "$root/python/tests"
