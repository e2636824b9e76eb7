#!/bin/sh
# check_symbols.sh NM LIBRARY LIST HEADER: the library exports the names of LIST and no others, and HEADER declares them.
set -eu
exported=$("$1" -D --defined-only "$2" | awk '{ print $NF }' | sort)
listed=$(sort "$3")
declared=$(grep -oE '\bconvoy_[a-z_]+\(' "$4" | tr -d '(' | sort -u)
if [ "$exported" != "$listed" ]; then
    echo "exported names differ from $3 (< exported, > listed):"
    one=$(mktemp) two=$(mktemp)
    echo "$exported" >"$one"
    echo "$listed" >"$two"
    diff "$one" "$two" || true
    rm -f "$one" "$two"
    exit 1
fi
for name in $exported; do
    echo "$declared" | grep -qx "$name" || { echo "$name is exported and not declared in $4"; exit 1; }
done
