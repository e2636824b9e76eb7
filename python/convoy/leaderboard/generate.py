"""Writes the one-file submission for the public conv2d_v2 board."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from .problems import BENCHMARKS, TESTS
from .source import compose, lane_tiles


@dataclass(frozen=True)
class Gpu:
    arch: str  # of nvcc's -gencode
    capability: tuple
    math: str  # what the board's reference there asks for: where it is the serial chain, match


GPUS = {
    "H100": Gpu("90a", (9, 0), "match"),
    "B200": Gpu("100a", (10, 0), "fp32"),
    "A100": Gpu("80", (8, 0), "fp32"),
    "L4": Gpu("89", (8, 9), "match"),
}
MATHS = ("match", "fp32", "exact")
CASES = list(dict.fromkeys(TESTS + BENCHMARKS))

_MODULE = r"""#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern "C" {
long long convoy_board_bytes(const long long *problem);
const char *convoy_board_run(const long long *problem, const float *x, const float *w, float *y, void *workspace);
}

static PyObject *need(PyObject *, PyObject *args)
{
    long long p[5];
    if (!PyArg_ParseTuple(args, "LLLLL", p, p + 1, p + 2, p + 3, p + 4))
        return NULL;
    return PyLong_FromLongLong(convoy_board_bytes(p));
}

static PyObject *run(PyObject *, PyObject *args)
{
    long long p[5];
    unsigned long long x, w, y, workspace;
    if (!PyArg_ParseTuple(args, "LLLLLKKKK", p, p + 1, p + 2, p + 3, p + 4, &x, &w, &y, &workspace))
        return NULL;
    const char *failed = convoy_board_run(p, (const float *)x, (const float *)w, (float *)y, (void *)workspace);
    if (failed)
        return PyUnicode_FromString(failed);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"need", need, METH_VARARGS, NULL}, {"run", run, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "board", NULL, -1, methods, NULL, NULL, NULL, NULL};
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
PyMODINIT_FUNC JOIN(PyInit_, TORCH_EXTENSION_NAME)(void) { return PyModule_Create(&module); }
"""

_FILE = '''#!POPCORN leaderboard conv2d_v2
#!POPCORN gpu @GPU@
"""2-D convolution in FP32, made by Convoy @VERSION@: @WHAT@.

Kernels for the board's own shapes on compute capability @CAPABILITY@; any other shape, layout or GPU goes to F.conv2d, and a line on
standard error says why. Nothing is kept between calls but the compiled module.
"""
import warnings

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

MODULE = r"""
@MODULE@"""
KERNELS = r"""
@KERNELS@"""
CAPABILITY = @CAPABILITY_TUPLE@


def _build():
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != CAPABILITY:
        return None, "this GPU is not of compute capability @CAPABILITY@, for which the file was made"
    try:
        return load_inline(
            name="convoy_board_@MATH@",
            cpp_sources=MODULE,
            cuda_sources=KERNELS,
            functions=None,
            with_cuda=True,
            no_implicit_headers=True,
            extra_cflags=["-O2"],
            extra_cuda_cflags=[@FLAGS@],
        ), ""
    except (RuntimeError, OSError, ImportError) as error:
        return None, "the kernels did not compile: " + str(error)[-400:]


_module, _reason = _build()


def _other(x, w, y, reason):
    warnings.warn("F.conv2d is used, because " + reason)
    result = F.conv2d(x, w)
    if y is None or y.shape != result.shape:
        return result
    y.copy_(result)
    return y


def custom_kernel(data):
    x, w, y = data
    if _module is None:
        return _other(x, w, y, _reason)
    tensors = (x, w, y)
    if any(t is None or t.dim() != 4 or t.dtype != torch.float32 or not t.is_cuda or not t.is_contiguous() for t in tensors):
        return _other(x, w, y, "a tensor is not a contiguous float32 tensor of 4 dimensions on the GPU")
    n, c, h, width = x.shape
    k, depth, r, s = w.shape
    side = h - r + 1
    if width != h or s != r or depth != c or tuple(y.shape) != (n, k, side, side):
        return _other(x, w, y, "the shapes are not square, or do not belong together")
    need = _module.need(n, c, h, k, r)
    if need < 0:
        return _other(x, w, y, "the file has no kernels for this shape")
    workspace = torch.empty(need + 256, dtype=torch.uint8, device=x.device)
    at = (workspace.data_ptr() + 255) // 256 * 256
    failed = _module.run(n, c, h, k, r, x.data_ptr(), w.data_ptr(), y.data_ptr(), at)
    if failed is not None:
        return _other(x, w, y, "the launch failed: " + failed)
    return y
'''

_WHAT = {
    "exact": "every output is the serial chain of FP32 multiply-adds over channels, rows and columns",
    "fp32": "tiled overlap-save FFT with products in FP32 accuracy",
    "match": "tiled overlap-save FFT, and the serial FP32 chain for those outputs where 1e-3 could tell the two apart",
}


def plans():
    """{gpu: {math: {problem: candidate}}}: what Convoy's planner chooses. tests/python/update_plans.py writes the file."""
    return json.loads((Path(__file__).with_name("plans.json")).read_text())


def _numbers(candidate):
    return [int(n) for n in re.findall(r"[a-z]+(\d+)", candidate)]


def _cases(chosen):
    rows = []
    for case in CASES:
        numbers = ", ".join(map(str, _numbers(chosen[str(case)])))
        rows.append(f"{{{case.batch}, {case.channels}, {case.size}, {case.outputs}, {case.kernel}, {{{numbers}}}}},")
    return "CV_BOARD_CASES " + " ".join(rows)


def _sides(chosen):
    """The tiles in use as defines: those whose lines are shared by lanes, and the sides of the others, by the kernels' four
    classes."""
    classes, lanes = [set(), set(), set(), set()], lane_tiles()
    pairs = {tuple(_numbers(candidate)[:2]) for candidate in chosen.values()}
    for pair in pairs.difference(lanes):
        larger = max(pair)
        classes[0 if larger <= 32 else 1 if larger <= 48 else 2 if larger <= 64 else 3].update(pair)
    shared = sorted(pairs.intersection(lanes)) or lanes[:1]  # a list must not be empty
    return ["CV_LANE_TILES(X) " + " ".join(f"X({ty}, {tx})" for ty, tx in shared)] + [
        f"CV_SIDES_{i}(X) " + " ".join(f"X({t})" for t in sorted(c)) for i, c in enumerate(classes)]


def kernels(gpu, math):
    """(CUDA source, extra flags of nvcc, names of the files in it)."""
    chosen = plans()[gpu][math]
    defines, flags, instances, replace = [_cases(chosen)], [], [], []
    if math == "exact":
        picks = [_numbers(c) for c in chosen.values()]
        instances = [("CV_SLIDE", {p[1] for p in picks if p[0] == 0}), ("CV_GATHER", {p[1] for p in picks if p[0] == 2})]
        # the board pads nothing: the kernels for padding stay out
        replace = [("(const void *)cv_slide_kernel<kt, qt, tk, nb, STAGES, true, minb>", "nullptr"),
                   ("(const void *)cv_gather_kernel<kt, pt, tk, tp, stages, true>", "nullptr")]
        flags = ["-Xptxas=-O1"]  # as the library builds them: ptxas then keeps the order that reuses operands
    else:
        if math == "match":  # the board's kernels have 4 columns at least
            replace = [("(const void *)cv_scatter_kernel<1, 0>", "nullptr")]
        defines += _sides(chosen) + [f"CV_BOARD_HOPPER {int(GPUS[gpu].arch == '90a')}"]
    text, files = compose(f"{math}.cu", defines, instances, replace)
    return text, flags, files


def generate(gpu, math=None):
    """The submission's text."""
    from .. import __version__

    if gpu not in GPUS:
        raise ValueError(f"gpu is {gpu!r}: expected one of {', '.join(GPUS)}")
    card = GPUS[gpu]
    math = math or card.math
    if math not in MATHS:
        raise ValueError(f"math is {math!r}: expected one of {', '.join(MATHS)}")
    if math not in plans()[gpu]:
        raise ValueError(f"math is {math!r}: {gpu} has no plans for it, only for {', '.join(plans()[gpu])}")
    source, flags, _ = kernels(gpu, math)
    flags = ["-O3", "--fmad=false", f"-gencode=arch=compute_{card.arch},code=sm_{card.arch}"] + flags
    values = {
        "GPU": gpu,
        "VERSION": __version__,
        "WHAT": _WHAT[math],
        "MATH": math,
        "CAPABILITY": f"{card.capability[0]}.{card.capability[1]}",
        "CAPABILITY_TUPLE": repr(card.capability),
        "FLAGS": ", ".join(f'"{f}"' for f in flags),
        "MODULE": _MODULE,
        "KERNELS": source,
    }
    return re.sub(r"@([A-Z_]+)@", lambda m: values[m.group(1)], _FILE)
