#!/bin/sh
# What a review should not have to say: format, include law, long files, unfinished words, dead links, cppcheck. Prints every
# fault, then exits 1 when there was one.
set -u
cd "$(dirname "$0")/.."
faults=0
fault() {
    faults=$((faults + 1))
    echo "check-style: $1"
    echo "$2"
}
sources="git ls-files *.c *.h *.cu *.cuh *.cpp *.py *.sh *.cmake"

out=$(python3 tools/check_includes.py) || fault "the include law of docs/design.md" "$out"

out=$($sources | xargs wc -l | awk '$2 != "total" && $1 > 400 { print $2 ": " $1 " lines" }')
[ -z "$out" ] || fault "files over 400 lines" "$out"

out=$(git grep -nIiwE 'todo|fixme|xxx|placeholder' -- 'src' 'include' 'cli' 'tests' 'python' 'examples' ':!*.npy')
[ -z "$out" ] || fault "unfinished" "$out"

out=$(git grep -nIE '[[:space:]]+$' -- ':!*.npy' ':!*.patch' ':!*.md' ':!*.svg' ':!tests/fuzz/corpus')
[ -z "$out" ] || fault "trailing blanks" "$out"

out=$(git ls-files '*.md' | while read -r file; do
    grep -oE '\]\(([^)#: ]+)' "$file" | sed 's/^](//' | while read -r link; do
        [ -e "$(dirname "$file")/$link" ] || echo "$file: $link"
    done
done)
[ -z "$out" ] || fault "links that lead nowhere" "$out"

if command -v clang-format-14 >/dev/null 2>&1; then
    out=$(tools/format.sh --check 2>&1) || fault "unformatted (make format)" "$(echo "$out" | grep -E 'error:')"
else
    echo "check-style: clang-format-14 is not installed, so it was left out"
fi

if command -v cppcheck >/dev/null 2>&1; then
    # Kernels are seen through their scalar build. The suppressions are matters of taste that the style guide settles;
    # invalidPointerCast dislikes workspaces being carved from bytes, which is what they are for.
    # shellcheck disable=SC2046
    out=$(cppcheck -q --std=c11 --language=c --enable=warning,performance,portability --inline-suppr \
        --error-exitcode=1 --suppress=missingInclude --suppress=missingIncludeSystem \
        --suppress=normalCheckLevelMaxBranches --suppress=invalidPointerCast --suppress=uninitStructMember \
        -DCV_ISA_SCALAR=1 -UCV_ISA_AVX2 -UCV_ISA_AVX512 -D__x86_64__=1 -D__linux__=1 -Iinclude -Isrc \
        -j "$(nproc)" $(git ls-files 'src/*.c' 'cli/*.c' 'examples/*.c') 2>&1) || fault "cppcheck" "$out"
else
    echo "check-style: cppcheck is not installed, so it was left out"
fi

[ "$faults" = 0 ] || { echo "check-style: $faults kinds of fault"; exit 1; }
echo "check-style: no fault"
