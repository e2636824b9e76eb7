#!/usr/bin/env python3
"""Holds the include law of docs/design.md: which part of the tree may include which.

Run from anywhere; prints each offending line and exits 1 when there is one.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What each part may include besides its own files, system headers and include/convoy. A longer entry names one file.
LAW = {
    "src/simd": [],
    "src/platform": [],
    "src/gpu": ["src/platform"],
    "src/core": ["src/platform", "src/simd/fma_rate.h"],
    "src/fft": ["src/simd", "src/platform", "src/gpu"],
    "src/chain": ["src/simd", "src/platform", "src/gpu"],
    "src/match": ["src/core", "src/platform", "src/simd", "src/chain", "src/gpu"],
    "src/tune": ["src/core", "src/platform"],
    "src/engines": ["src/core", "src/platform", "src/simd", "src/fft", "src/chain", "src/gpu"],
    "src/wiring.c": ["src/"],
    "cli": [],
    "python": ["src/chain", "src/engines/cuda_fft", "src/match", "src/gpu"],  # the leaderboard file is composed of kernels
    "examples": [],
    "bench": [],
    "tests/conv": [],
    "tools": [],
    "tests": ["src/", "cli/", "tests/"],
    "include": [],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def part_of(path):
    """The entry of LAW that a file falls under: the longest prefix."""
    fits = [part for part in LAW if path == part or path.startswith(part + "/")]
    return max(fits, key=len) if fits else None


def resolve(path, name):
    """The file that `name` means in `path`: beside it, then under include/ and src/, then under the file's part."""
    part = part_of(path) or ""
    for base in (pathlib.PurePosixPath(path).parent, "include", "src", part, "."):
        found = ROOT / base / name
        if found.is_file():
            return found.resolve().relative_to(ROOT).as_posix()
    return None


def allowed(path, target):
    part = part_of(path)
    if target.startswith("include/"):
        return True
    if part == "src/engines":  # an engine is a folder, and never sees another one
        own = "/".join(path.split("/")[:3]) + "/"
        if target.startswith("src/engines/"):
            return target.startswith(own)
    elif part_of(target) == part:
        return True
    return any(target == grant or target.startswith(grant.rstrip("/") + "/") for grant in LAW[part])


def main():
    files = subprocess.run(["git", "ls-files", "*.c", "*.h", "*.cu", "*.cuh", "*.cpp"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split()
    faults = 0
    for path in files:
        if part_of(path) is None:
            print(f"{path}: no part of tools/check_includes.py covers this folder")
            faults += 1
            continue
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = resolve(path, match.group(1))
            if target is None:  # generated, or a system header in quotes
                continue
            if not allowed(path, target):
                print(f"{path}:{number}: {part_of(path)} may not include {target}")
                faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
