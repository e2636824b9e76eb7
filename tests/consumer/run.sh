#!/bin/sh
# run.sh CMAKE CONVOY_BUILD SCRATCH
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=$3/prefix
rm -rf "$prefix" "$3/build"
"$1" --install "$2" --prefix "$prefix" >/dev/null
"$1" -S "$here/project" -B "$3/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
"$1" --build "$3/build" >/dev/null
"$3/build/consumer_c"
"$3/build/consumer_cpp"

command -v pkg-config >/dev/null || { echo "pkg-config is not installed: that half was left out"; exit 0; }
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name convoy.pc)")
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs convoy)
libdir=$(pkg-config --variable=libdir convoy)
# shellcheck disable=SC2086
cc -std=c99 "$here/project/consumer.c" -o "$3/consumer_pc" $flags -Wl,-rpath,"$libdir"
"$3/consumer_pc"
[ ! -x "$prefix/bin/convoy" ] || "$prefix/bin/convoy" --version
