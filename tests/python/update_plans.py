#!/usr/bin/env python3
"""update_plans.py TOOL: writes python/convoy/leaderboard/plans.json from what build/tests/leaderboard_plans prints.

The benchmarks get the planner's first choice. The tests, which are not timed, get the best one among the kernels that the
benchmarks bring along, if there is one: a file with fewer kernels compiles sooner.
"""
import json
import pathlib
import re
import subprocess
import sys

FILE = pathlib.Path(__file__).resolve().parents[2] / "python/convoy/leaderboard/plans.json"
sys.path.insert(0, str(FILE.parent))
from source import lane_tiles  # noqa: E402

TESTS = 5  # the first problems that the tool lists; then the benchmarks


def candidates(tool):
    """{gpu: {math: {problem: [(candidate, seconds), ...]}}}, quickest first."""
    table = {}
    for line in subprocess.run([tool], check=True, capture_output=True, text=True).stdout.splitlines():
        gpu, math, problem, candidate, seconds = line.split()
        table.setdefault(gpu, {}).setdefault(math, {}).setdefault(problem, []).append((candidate, float(seconds)))
    for maths in table.values():
        for problems in maths.values():
            for rows in problems.values():
                rows.sort(key=lambda row: row[1])
    return table


def numbers(candidate):
    return [int(n) for n in re.findall(r"[a-z]+(\d+)", candidate)]


def parts(math, candidate):
    """What a candidate needs compiled: the kernel's instance, or the sides of its tile with their class."""
    n = numbers(candidate)
    if math == "exact":
        return {(n[0], n[1])}
    if tuple(n[:2]) in lane_tiles():
        return {("lanes", *n[:2])}
    larger = max(n[:2])
    group = 0 if larger <= 32 else 1 if larger <= 48 else 2 if larger <= 64 else 3
    return {(group, side) for side in n[:2]}


def squares(math, built, problem):
    """Square tiles of the sides at hand that hold twice the kernel, for a problem whose own candidates are all others."""
    taps = int(re.search(r"r(\d+)$", problem).group(1))
    sides = sorted({part[1] for part in built if math != "exact" and parts(math, f"ty{part[1]}tx{part[1]}") == {part}})
    return [f"ty{side}tx{side}" + "runs1" * (math == "match") for side in sides if side >= 2 * taps]


def choose(table):
    chosen = {}
    for gpu, maths in table.items():
        for math, problems in maths.items():
            names = list(problems)
            picks = {name: problems[name][0][0] for name in names[TESTS:]}
            built = set().union(*(parts(math, c) for c in picks.values()))
            for name in names[:TESTS]:
                fitting = [c for c, _ in problems[name] if parts(math, c) <= built] + squares(math, built, name)
                picks[name] = (fitting or [problems[name][0][0]])[0]
            chosen.setdefault(gpu, {})[math] = {name: picks[name] for name in names}
    return chosen


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    FILE.write_text(json.dumps(choose(candidates(sys.argv[1])), indent=1) + "\n")
    print(f"wrote {FILE}")
