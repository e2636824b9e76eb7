#!/bin/sh
# Draws the pictures of README.md and docs/ again from bench/results. Needs NumPy and matplotlib, and the library built or installed.
#   bench/pictures.sh [PYTHON]
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3} results=bench/results images=docs/images
export PYTHONPATH="$PWD/python${PYTHONPATH:+:$PYTHONPATH}"

draw() { # draw PICTURE FIGURE RESULTS...
    picture=$1 figure=$2
    shift 2
    "$python" -m convoy.report "$@" --figure "$figure" -o "$images/$picture"
}
draw h200-time.svg Time $results/h200-leaderboard.json
draw h200-phases.svg Phases $results/h200-cuda-fft.json
draw h200-roofline.svg Roofline $results/h200-leaderboard.json
draw h200-scaling.svg "Image size" $results/h200-scaling.json
draw h200-error.svg Error $results/h200-leaderboard.json
draw cpu-time.svg Time $results/cpu-zen4.json
draw cpu-roofline.svg Roofline $results/cpu-zen4.json
draw cpu-kernels.svg "Kernel size" $results/cpu-zen4-kernels.json
draw cpu-tiles.svg "Tile side" $results/cpu-zen4-tiles.json
