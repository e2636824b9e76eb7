"""The one-file submission: its rules, that it holds this library's kernels, and what it does elsewhere. test_submissions.py compiles them."""

import ast
import math
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from convoy.leaderboard import rules
from convoy.leaderboard.__main__ import main
from convoy.leaderboard.generate import CASES, GPUS, generate, kernels, plans
from convoy.leaderboard.problems import BENCHMARKS
from convoy.leaderboard.source import _rename, roots, strip_comments

MADE = [(gpu, math) for gpu, maths in plans().items() for math in maths]


def _text_of(source, name):
    """The string that a file assigns to a name."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return node.value.value
    raise AssertionError(name)


@pytest.mark.parametrize("gpu,math", MADE)
def test_rules_hold(gpu, math, tmp_path, capsys):
    path = tmp_path / "submission.py"
    assert main(["--gpu", gpu, "--math", math, "-o", str(path)]) == 0
    assert main(["check", "--rules", str(path)]) == 0
    lines = path.read_text().splitlines()
    assert lines[:2] == ["#!POPCORN leaderboard conv2d_v2", f"#!POPCORN gpu {gpu}"]
    assert path.stat().st_size < 300_000  # far from the limit: what the board does not need stays out
    source = _text_of(path.read_text(), "KERNELS")
    assert "/*" not in source and not re.search(r"//", source) and '#include "' not in source
    for case in CASES:
        assert f"{{{case.batch}, {case.channels}, {case.size}, {case.outputs}, {case.kernel}, {{" in source


def test_default_math():
    assert {name: card.math for name, card in GPUS.items()} == {"H100": "match", "L4": "match", "A100": "fp32", "B200": "fp32"}


BREAKS = {
    "forbidden letters": lambda t: t.replace("import torch\n", "import torch\nSt" + "Ream = 1\n", 1),
    "letters across lines": lambda t: t + "\nx = 1  # str\neam = 2\n",
    "directive": lambda t: t.replace("#!POPCORN gpu", "# gpu", 1),
    "leaderboard": lambda t: "\n" + t,
    "two architectures": lambda t: t.replace('"-O3", ', '"-O3", "-gencode=arch=compute_80,code=sm_80", ', 1),
    "no architecture": lambda t: re.sub(r'"-gencode[^"]*"', '"-O3"', t, count=1),
    "implicit headers": lambda t: t.replace("no_implicit_headers=True", "no_implicit_headers=False"),
    "checker's flags": lambda t: t + "\ntorch.backends.cudnn.benchmark = True\n",
    "determinism": lambda t: t + "\ntorch.use_deterministic_algorithms(False)\n",
    "cache by decorator": lambda t: t.replace("def custom_kernel", "@torch.compile\ndef custom_kernel"),
    "cache by index": lambda t: t.replace("    x, w, y = data\n", "    x, w, y = data\n    seen = {}\n    seen[x.data_ptr()] = y\n"),
    "state": lambda t: t.replace("    x, w, y = data\n", "    global _module\n    x, w, y = data\n"),
    "import": lambda t: t.replace("import warnings", "import warnings, subprocess"),
    "pip": lambda t: t.replace('"""', '"""pip install, then ', 1),
    "header": lambda t: t.replace("#include <float.h>", "#include <torch/extension.h>", 1) if "float.h" in t
    else t.replace("#include <math.h>", "#include <torch/extension.h>", 1),
    "entry": lambda t: t.replace("def custom_kernel(data)", "def kernel(data)"),
    "not Python": lambda t: t + "\nx = (\n",
    "too large": lambda t: t + "\n# " + "x" * 1_000_000,
}


@pytest.mark.parametrize("how", BREAKS)
def test_rules_find(how, tmp_path, capsys):
    text = generate("H100", "exact")
    assert rules.faults(text.encode()) == []
    broken = BREAKS[how](text)
    assert broken != text and rules.faults(broken.encode())
    (tmp_path / "bad.py").write_text(broken)
    assert main(["check", str(tmp_path / "bad.py")]) == 1  # and it is not run


def test_rules_find_other_encodings():
    assert rules.faults(generate("H100", "exact").encode("utf-16"))


def test_bad_arguments(tmp_path):
    for arguments in (["--gpu", "H100"], ["--gpu", "T4", "-o", "x"], ["--gpu", "H100", "-o", str(tmp_path / "no" / "x")],
                      ["check", str(tmp_path / "none.py")], ["check"]):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2


@pytest.mark.parametrize("gpu,math", MADE)
def test_holds_this_library_s_kernels(gpu, math):
    """Every line of every file that is in it, comments and includes aside, stands in the submission in its order; only
    instances that no choice names may be left out."""
    source, _, files = kernels(gpu, math)
    assert any(name.endswith("_kernel.cuh") or name.endswith("forward.cu") for name in files)
    made = source.splitlines()
    for name in files:
        path = next(root / name for root in roots() if (root / name).exists())
        at, missing = 0, []
        wanted = [line for line in _rename(strip_comments(path.read_text())).splitlines() if "#include" not in line]
        places = {}
        for i, line in enumerate(made):
            places.setdefault(line, []).append(i)
        for line in wanted:
            later = [i for i in places.get(line, []) if i >= at]
            if later:
                at = later[0] + 1
            else:
                missing.append(line)
        instance = r"CV_SLIDE\(|CV_GATHER\(|cv_slide_kernel<kt, qt|cv_gather_kernel<kt, pt|cv_scatter_kernel<1, 0>"
        assert all(re.search(instance, line) for line in missing), (name, missing[:5])


def test_module_compiles(tmp_path):
    import sysconfig

    compiler, include = shutil.which("c++"), sysconfig.get_paths()["include"]
    if not compiler or not (Path(include) / "Python.h").exists():
        pytest.skip("no C++ compiler, or no Python.h")
    (tmp_path / "module.cpp").write_text(_text_of(generate("H100", "exact"), "MODULE"))
    subprocess.run([compiler, "-Wall", "-Werror", "-fPIC", "-DTORCH_EXTENSION_NAME=board", f"-I{include}", "-c", "module.cpp", "-o", "m.o"],
                   cwd=tmp_path, check=True)


def test_plans_are_the_planner_s():
    tool = os.environ.get("CONVOY_LEADERBOARD_PLANS")
    if not tool:
        pytest.skip("CONVOY_LEADERBOARD_PLANS does not name build/tests/leaderboard_plans (ctest does)")
    ranked = {}
    for line in subprocess.run([tool], check=True, capture_output=True, text=True).stdout.splitlines():
        gpu, math, problem, candidate, seconds = line.split()
        ranked.setdefault((gpu, math, problem), {})[candidate] = float(seconds)
    for gpu, maths in plans().items():
        for math_, chosen in maths.items():
            for case in BENCHMARKS:
                offered = ranked[gpu, math_, str(case)]
                pick = chosen[str(case)]
                assert pick in offered and offered[pick] <= 1.25 * min(offered.values()), (
                    f"{gpu} {math_} {case}: {pick} is no longer the planner's: run tests/python/update_plans.py {tool}")


def _load(text, tmp_path, name):
    import importlib.util

    path = tmp_path / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_falls_back_with_a_reason(tmp_path):
    torch = pytest.importorskip("torch")
    module = _load(generate("L4" if torch.cuda.is_available() else "H100", "exact"), tmp_path, "elsewhere")
    x, w = torch.randn(1, 3, 9, 9), torch.randn(2, 3, 4, 4)
    y = torch.full((1, 2, 6, 6), math.nan)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got = module.custom_kernel((x, w, y))
    assert got is y and torch.equal(y, torch.nn.functional.conv2d(x, w))
    assert "F.conv2d is used, because" in str(said[0].message)


def test_compare_has_no_mercy():
    torch = pytest.importorskip("torch")
    from convoy.leaderboard.check import compare

    ref = torch.tensor([1.0, 1000.0, 0.0, math.nan, math.inf, -math.inf])
    assert compare(torch, ref.clone(), ref)[0] == 0
    near = ref + torch.tensor([1.9e-3, 0.9, 0.9e-3, 0, 0, 0])
    assert compare(torch, near, ref)[0] == 0
    for place, value in ((0, 1.0021), (1, 1001.1), (2, 1.1e-3), (2, math.nan), (3, 0.0), (4, 1e38), (4, -math.inf), (0, math.inf)):
        bad = ref.clone()
        bad[place] = value
        assert compare(torch, bad, ref)[0] == 1, (place, value)
    assert compare(torch, ref[:3], ref)[0] > 0


@pytest.mark.parametrize("math_", sorted({m for g, m in MADE if g == "H100"}))
def test_on_the_gpu(math_, tmp_path):
    torch = pytest.importorskip("torch")
    gpu = next((name for name, card in GPUS.items() if torch.cuda.is_available() and torch.cuda.get_device_capability() == card.capability), None)
    if gpu is None:
        pytest.skip("no GPU that the board has")
    path = tmp_path / "submission.py"
    assert main(["--gpu", gpu, "--math", math_, "-o", str(path)]) == 0
    program = f"import sys; from convoy.leaderboard.__main__ import main; sys.exit(main(['check', '--tests', {str(path)!r}]))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
