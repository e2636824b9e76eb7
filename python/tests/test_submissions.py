"""Submissions for every GPU compile here, in the time that the board allows, and ask for no more than that GPU grants: its host code runs
on a made-up CUDA runtime (fake_cuda.c). By default the three of H100 and the default of each other GPU; all with
CONVOY_ALL_SUBMISSIONS=1."""

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from convoy.leaderboard.generate import CASES, GPUS, MATHS, generate

NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
CXX, CC = shutil.which("c++"), shutil.which("cc")
if not NVCC or not CXX or not CC:
    pytest.skip("no nvcc, or no C compiler", allow_module_level=True)

MADE = [(gpu, math) for gpu in GPUS for math in MATHS
        if gpu == "H100" or math == GPUS[gpu].math or os.environ.get("CONVOY_ALL_SUBMISSIONS") == "1"]
CARDS = {"H100": (9, 132, 232448), "B200": (10, 148, 232448), "A100": (8, 108, 166912), "L4": (8, 58, 101376)}  # major, SMs, shared bytes


def _kernels(text):
    return next(node.value.value for node in ast.parse(text).body
                if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "KERNELS")


def _compile(gpu, math, folder):
    """kernels.o in folder, and resources: a line a kernel, its name, registers and static shared memory. The seconds of processor
    time."""
    text = generate(gpu, math)
    (folder / "kernels.cu").write_text(_kernels(text))
    flags = re.search(r"extra_cuda_cflags=\[(.*?)\]", text).group(1).replace('"', "").split(", ")
    start = os.times().children_user
    done = subprocess.run([NVCC, "-std=c++17", *flags, "-Xptxas=-v", "-Xcompiler=-fPIC", "-c", "-o", "kernels.o", "kernels.cu"], cwd=folder,
                          capture_output=True, text=True)
    assert done.returncode == 0 and "error" not in done.stderr, done.stderr[-3000:]
    spent = os.times().children_user - start
    found = re.findall(r"entry function '(\S+)'.*?Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?", done.stdout + done.stderr, re.S)
    (folder / "resources").write_text("".join(f"{name} {registers} {fixed or 0}\n" for name, registers, fixed in found))
    return spent


@pytest.mark.parametrize("gpu,math", MADE)
def test_compiles_and_fits(gpu, math, tmp_path):
    spent = _compile(gpu, math, tmp_path)
    assert spent < 120, f"{spent:.0f} s of compiling"  # the board allows 60; on a busy machine here it swells threefold
    symbols = subprocess.run(["nm", "-C", "kernels.o"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert " T convoy_board_run" in symbols and " T convoy_board_bytes" in symbols
    missing = [line for line in symbols.splitlines() if re.search(r" U .*(cv_|convoy_|board)", line)]
    assert not missing, missing
    include = Path(os.path.realpath(NVCC)).parents[1] / "include"
    fake = Path(__file__).with_name("fake_cuda.c")
    subprocess.run([CC, "-c", f"-I{include}", str(fake), "-o", "fake.o"], cwd=tmp_path, check=True)
    subprocess.run([CXX, "fake.o", "kernels.o", "-o", "fake"], cwd=tmp_path, check=True)
    cases = [f"{c.batch},{c.channels},{c.size},{c.outputs},{c.kernel}" for c in CASES]
    done = subprocess.run([str(tmp_path / "fake"), *map(str, CARDS[gpu]), "resources", *cases], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"^\d+ launches", done.stdout, re.M)
