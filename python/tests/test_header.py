"""Every structure and function of _lib.py against the public header, field by field: a structure that is a field short has the
library write past its end, into whatever object of Python's lies there."""

import ctypes as ct
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from convoy import _lib

HEADER = Path(__file__).resolve().parents[2] / "include/convoy/convoy.h"
STRUCTS = {"convoy_problem": _lib.Problem, "convoy_allocator": _lib.Allocator, "convoy_context_options": _lib.ContextOptions,
           "convoy_plan_options": _lib.PlanOptions, "convoy_plan_info": _lib.PlanInfo, "convoy_explanation": _lib.Explanation,
           "convoy_args": _lib.Args, "convoy_engine_info": _lib.EngineInfo, "convoy_timing": _lib.Timing}
SCALARS = {"int": ct.c_int, "double": ct.c_double, "size_t": ct.c_size_t, "int64_t": ct.c_int64, "float": ct.c_float}


@pytest.fixture(scope="module")
def header():
    if not HEADER.exists():
        pytest.skip("the header is not beside these tests")
    return re.sub(r"/\*.*?\*/|^\s*#.*?$", "", HEADER.read_text(), flags=re.S | re.M)


def _fields(header, name):
    """[(field, 'pointer' | ctypes type | struct name, count)] of a struct of the header."""
    enums = set(re.findall(r"typedef enum \w+ \{.*?\} (\w+);", header, flags=re.S))
    callbacks = set(re.findall(r"typedef \w[\w ]* \(\*(\w+)\)\(", header))
    body = re.search(rf"typedef struct {name} \{{(.*?)\}} {name};", header, flags=re.S).group(1)
    out = []
    for declaration in filter(None, (d.strip() for d in body.split(";"))):
        callback = re.match(r"[\w\s*]+\(\*(\w+)\)\(.*\)$", declaration, flags=re.S)
        if callback:
            out.append((callback.group(1), "pointer", 1))
            continue
        kind, names = re.match(r"(?:const )?(\w+)\s+(.*)$", declaration, flags=re.S).groups()
        for part in names.split(","):
            star, field, count = re.match(r"\s*(\**)\s*(\w+)(?:\[(\d+)\])?\s*$", part).groups()
            what = "pointer" if star or kind in callbacks else ct.c_int if kind in enums else SCALARS.get(kind, kind)
            out.append((field, what, int(count or 1)))
    return out


def _is_pointer(kind):
    return kind in (ct.c_void_p, ct.c_char_p) or issubclass(kind, (ct._Pointer, ct._CFuncPtr))


@pytest.mark.parametrize("name", STRUCTS)
def test_structure(header, name):
    mine = [(f, k) for f, k in STRUCTS[name]._fields_]
    theirs = _fields(header, name)
    assert [f for f, _ in mine] == [f for f, _, _ in theirs]
    for (field, kind), (_, what, count) in zip(mine, theirs):
        if what == "pointer":
            assert _is_pointer(kind), field
        elif isinstance(what, str):
            assert kind is STRUCTS[what], field
        else:
            assert kind is (what if count == 1 else what * count) or kind._type_ is what and kind._length_ == count, field


def test_functions(header):
    for name, (result, arguments) in _lib._SIGNATURES.items():
        found = re.search(rf"([\w ]+?)\s*(\**)\s*\b{name}\(((?:[^()]|\([^()]*\))*)\)\s*;", header, flags=re.S)
        assert found, name
        kind, star, inside = found.groups()
        kind = re.sub(r"\b(CONVOY_API|const|extern)\b", "", kind).strip()
        if star and kind in STRUCTS:
            assert result._type_ is STRUCTS[kind], name
        else:
            assert result is (ct.c_char_p if star else None if kind == "void" else SCALARS.get(kind, ct.c_int)), name
        inside = re.sub(r"\(\*(\w+)\)\([^()]*\)", r"*\1", inside)  # a callback's own parameters
        want = [] if inside.strip() == "void" else inside.split(",")
        assert len(arguments) == len(want), name
        for kind, text in zip(arguments, want):
            assert _is_pointer(kind) == ("*" in text or "_fn " in text), f"{name}: {text.strip()}"


def test_no_call_writes_past_its_structure():
    program = """if True:
        import numpy as np, convoy
        x, w = np.ones((1, 2, 20, 20), np.float32), np.ones((2, 2, 5, 5), np.float32)
        plan = convoy.plan(x, w, prepared=True)
        for _ in range(50):
            plan.info, repr(plan), convoy.explain(x, w), convoy.context().info
        plan(x, plan.prepare(w)), convoy.conv2d(x, w, np.ones(2, np.float32))
    """
    done = subprocess.run([sys.executable, "-c", program], env=dict(os.environ, PYTHONMALLOC="debug"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
