#!/bin/sh
# tools/setup.sh build|test|ci: makes sure that what the build, the tests or the continuous integration need is
# installed. On Debian and its relatives, as root or with a sudo that asks nothing, missing packages are installed;
# elsewhere one line names them.
set -eu

cd "$(dirname "$0")/.."
missing=

tool() { # tool COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

header() { # header FILE PACKAGE
    echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1 || missing="$missing $2"
}

tool cmake cmake
tool ninja ninja-build
tool cc gcc
header stdio.h libc6-dev
header cjson/cJSON.h libcjson-dev
if [ "$1" != build ]; then
    tool c++ g++
    tool pkg-config pkg-config
    tool python3 python3
    tool nm binutils
    for python in ${CONVOY_PYTHON:-} python3 /usr/bin/python3 none; do
        "$python" -c 'import numpy, pytest, scipy' >/dev/null 2>&1 && break
    done
    [ "$python" != none ] || missing="$missing python3-numpy python3-scipy python3-pytest"
    echo '#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>' | cc -E -x c - >/dev/null 2>&1 || missing="$missing libcmocka-dev"
fi
if [ "$1" = ci ]; then
    tool clang clang
    tool clang-format-14 clang-format-14
    tool cppcheck cppcheck
    tool doxygen doxygen
    tool dpkg-shlibdeps dpkg-dev
    python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing="$missing python3-venv"
    [ -n "$(find /usr/lib/llvm*/lib /usr/lib/clang -name 'libclang_rt.fuzzer-x86_64.a' 2>/dev/null | head -1)" ] ||
        missing="$missing libclang-rt-14-dev"
fi
[ -n "$missing" ] || exit 0

if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then
        as_root=env
    elif sudo -n true >/dev/null 2>&1; then
        as_root="sudo env"
    else
        echo "missing packages:$missing (install them, or run this as root: apt-get install$missing)" >&2
        exit 1
    fi
    echo "installing:$missing"
    # shellcheck disable=SC2086
    $as_root DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null 2>&1 || {
        $as_root apt-get update -qq
        $as_root DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null
    }
else
    echo "missing packages (by their Debian names):$missing" >&2
    exit 1
fi
