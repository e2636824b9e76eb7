#!/bin/sh
# Formats the C and CUDA sources in place; with --check only says which are not formatted, and fails.
set -eu
cd "$(dirname "$0")/.."
formatter=$(command -v clang-format-14 || command -v clang-format)
mode=-i
[ "${1-}" != --check ] || mode="--dry-run -Werror"
# shellcheck disable=SC2086
git ls-files '*.c' '*.h' '*.cu' '*.cuh' | xargs -r "$formatter" $mode
