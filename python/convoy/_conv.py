"""conv2d and its relatives for arrays of any kind."""

from __future__ import annotations

import contextlib
import ctypes as ct
import operator
from math import prod
from typing import Any, Dict, List, Optional, Union

import numpy as np

from . import _lib
from ._arguments import make_problem
from ._lib import check, lib
from ._plan import Plan, Weights, cached_plan, context, plan_options
from ._tensor import View, empty_like_kind, packed, view
from ._types import Array, Ints, Math, Other, Padding, Shape


def _rank4(name, v):
    if len(v.shape) == 4:
        return v
    if name == "x" and len(v.shape) == 3:
        v.shape, v.stride = (1,) + v.shape, (v.shape[0] * v.stride[0] if v.stride else 1,) + v.stride
        return v
    if len(v.shape) == 2:
        raise ValueError(f"{name} has shape {tuple(v.shape)}: two dimensions are for x and w together, one image with one kernel")
    raise ValueError(f"{name} has shape {tuple(v.shape)}: expected 4 dimensions" + (" (N, C, H, W), or 3 without N" if name == "x" else " (K, C/G, R, S)"))


def _lift(v):
    """One image or kernel (two dimensions) as four."""
    v.shape, v.stride = (1, 1) + tuple(v.shape), (v.shape[0] * v.shape[1],) * 2 + tuple(v.stride)


def _fit(xv, wv):
    """Gives views of x and w four dimensions; returns them, and how many leading dimensions y then lacks."""
    lacks = 2 if len(xv.shape) == 2 == len(wv.shape) else 1 if len(xv.shape) == 3 else 0
    if lacks == 2:
        _lift(xv), _lift(wv)
    return _rank4("x", xv), _rank4("w", wv), lacks


def _fit_out(v, lacks):
    """Gives the view of a caller's output the dimensions that its x lacks."""
    if len(v.shape) == 4 - lacks:
        v.shape, v.stride = (1,) * lacks + tuple(v.shape), (prod(v.shape),) * lacks + tuple(v.stride)
    return v


def _drop(y, lacks):
    return y[0, 0] if lacks == 2 else y[0] if lacks else y


def _check_written(out, v):
    """That out's own memory is what the library will write."""
    if v.keep is not out or v.kind == "numpy" and not out.flags.writeable:
        raise ValueError("out is read-only, or not made of whole floats as they stand: expected a writable float32 array")


def _same_device(x, **others):
    for name, v in others.items():
        if v is not None and v.device != x.device:
            raise ValueError(f"{name} is on {v.device[0]}:{v.device[1]} and x on {x.device[0]}:{x.device[1]}: expected one device")


def _check_bias(b, k):
    if len(b.shape) != 1 or b.shape[0] != k:
        raise ValueError(f"bias has shape {tuple(b.shape)}: expected ({k},), one value an output channel")
    if k > 1 and b.stride[0] != 1:
        raise ValueError("bias is not contiguous: expected a contiguous vector")


def conv2d(x: Array, w: Other, bias: Optional[Other] = None, *, stride: Ints = 1,
           padding: Padding = 0, dilation: Ints = 1, groups: int = 1,
           math: Math = "fp32", rtol: Optional[float] = None, atol: Optional[float] = None, out: Optional[Array] = None,
           engine: Optional[str] = None, workspace_limit: Optional[int] = None) -> Array:
    """2-D convolution with torch.nn.functional.conv2d's meaning (cross-correlation), in strict FP32.

    x (N, C, H, W) or (C, H, W), w (K, C/G, R, S), bias (K), or one image x (H, W) with one kernel w (R, S): float32 NumPy arrays, PyTorch tensors (CPU or CUDA, on the current
    stream), CuPy arrays or DLPack objects, all on one device; any element strides (views) are read in place.
    Returns y (N, K, P, Q) of x's kind, or out when given (right shape, float32, not overlapping the inputs).

    stride, dilation: an int or (height, width). padding: an int, (height, width), (top, bottom, left, right), "same"
    (stride 1) or "valid". math: "fp32" (any FP32 algorithm within its bound), "exact" (the same bits on every
    machine) or "match" (within rtol, atol of exact; default 1e-3 each). engine: a name such as "fft", or
    "fft:ty32tx32". workspace_limit: bytes of scratch memory at most.

    Raises ValueError, TypeError, NotImplementedError (no engine accepts it) or MemoryError. The interpreter's lock is not
    held while the library computes. PyTorch tensors that need gradients go through convoy.torch.conv2d.
    """
    if not isinstance(x, np.ndarray) and hasattr(x, "__torch_function__"):
        import torch  # not from sys.modules: a compiler would trace that, and compile again whenever something is imported

        if isinstance(x, torch.Tensor) and not is_plain(torch, x, w, bias):
            if out is not None:
                raise ValueError("out is given, and an input requires a gradient or is being traced: expected out=None")
            from . import torch as convoy_torch

            return convoy_torch.conv2d(x, w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups, math=math, rtol=rtol,
                                       atol=atol, engine=engine, workspace_limit=workspace_limit)
    return on_arrays(x, w, bias, stride, padding, dilation, groups, math, rtol, atol, out, engine, workspace_limit)


def is_plain(torch, *tensors):
    """Whether torch tensors hold numbers that may be read now: no gradient to record, and neither a compiler, a transform nor a
    mode that wants to see the operator (whose tensors have no memory, or not their own)."""
    if torch.compiler.is_compiling():
        return False
    grad, plain = torch.is_grad_enabled(), (torch.Tensor, torch.nn.Parameter)
    for t in tensors:
        if isinstance(t, torch.Tensor) and (type(t) not in plain or t.is_meta or grad and t.requires_grad):
            return False
    return not torch._C._len_torch_dispatch_stack() and torch._C._functorch.peek_interpreter_stack() is None


def on_arrays(x, w, bias, stride, padding, dilation, groups, math, rtol, atol, out, engine, workspace_limit):
    xv, wv = view("x", x), view("w", w)
    xv, wv, lacks = _fit(xv, wv)
    bv = view("bias", bias) if bias is not None else None
    ov = view("out", out) if out is not None else None
    if wv.device != xv.device or bv is not None or ov is not None:
        _same_device(xv, w=wv, bias=bv, out=ov)
    if ov is not None:
        given = tuple(ov.shape)
        _fit_out(ov, lacks)
    y_stride = None if ov is None else ov.stride

    def build():
        problem, y_shape = make_problem(xv.shape, xv.stride, wv.shape, wv.stride, stride, padding, dilation, groups,
                                        y_stride, None if ov is None else given, lacks)
        options = plan_options(math, rtol, atol, engine, None, workspace_limit, bias=bv is not None)
        return Plan(problem, options, xv.device, y_shape)

    if not (type(stride) is type(dilation) is type(groups) is int and type(padding) in (int, str)):
        try:
            stride, padding, dilation, groups = _key(stride), _key(padding), _key(dilation), _key(groups)
        except TypeError:
            build()  # says which is wrong, and what was expected
            raise
    key = (xv.shape, xv.stride, wv.shape, wv.stride, y_stride, None if ov is None else ov.shape, stride, padding, dilation, groups, math, rtol, atol, engine,
           workspace_limit, bv is None, xv.device)
    plan = cached_plan(key, build)
    if bv is not None:
        _check_bias(bv, wv.shape[0])
    if ov is None:
        result, address = empty_like_kind(xv, plan.y_shape, plan.y_bytes)
        if lacks:
            result = _drop(result, lacks)
    else:
        _check_written(out, ov)
        result, address = out, ov.address
    plan.run(xv, wv.address, None, bv.address if bv is not None else None, address)
    return result


def _key(value):
    """Ints of any kind and sequences of them as a key: what is merely equal to an int, True or 1.0, must not find an int's plan."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        raise TypeError("a bool")
    if getattr(value, "shape", None) == () or not hasattr(value, "__iter__"):
        return operator.index(value)
    return tuple(map(operator.index, value))


def _problem_of(x, w, stride, padding, dilation, groups):
    """Problem, y's shape and device from arrays, or from two shapes (packed, on the CPU), or from a problem string."""
    if isinstance(x, str):
        if w is not None or (stride, padding, dilation, groups) != (1, 0, 1, 1):
            raise ValueError(f"problem {x!r} is given with w, stride, padding, dilation or groups: expected these in the string")
        p = _lib.Problem()
        check(lib.convoy_problem_parse(_lib.text("x", x), p))
        P, Q = ct.c_int64(), ct.c_int64()
        check(lib.convoy_problem_output(p, P, Q))
        return p, (p.n, p.k, P.value, Q.value), ("cpu", 0)
    if w is None:
        raise TypeError("w is missing: expected two arrays, two shapes, or a problem string alone")
    if isinstance(x, tuple) and isinstance(w, tuple):
        xv, wv = (View(0, shape, packed(shape), ("cpu", 0), "shape", None) for shape in (x, w))
    else:
        xv, wv = view("x", x), view("w", w)
    xv, wv, _ = _fit(xv, wv)
    _same_device(xv, w=wv)
    return make_problem(xv.shape, xv.stride, wv.shape, wv.stride, stride, padding, dilation, groups) + (xv.device,)


class ArrayPlan(Plan):
    """A Plan called with arrays: plan(x, w or weights, bias=None, out=None) -> y."""

    def __init__(self, problem, options, device, y_shape, x_view, w_view):
        super().__init__(problem, options, device, y_shape)
        self._x, self._w = x_view, w_view

    def _checked(self, wv):
        if (tuple(wv.shape), tuple(wv.stride), wv.device) != self._w + (self.device,):
            raise ValueError(f"w has shape {wv.shape}, strides {wv.stride} on {wv.device}: the plan was made for {self._w[0]}, {self._w[1]} on {self.device}")
        return wv

    def prepare(self, w: Other) -> Weights:
        """Transforms w once (for inference). ValueError where its shape, strides or device are not the plan's."""
        wv = view("w", w)
        if len(wv.shape) == 2:
            _lift(wv)
        self._checked(wv)
        return super().prepare(w)

    def __call__(self, x: Array, w: Union[Other, Weights], bias: Optional[Other] = None, out: Optional[Array] = None) -> Array:
        """y of x; w is an array, or what prepare gave for a plan with prepared=True. ValueError where a shape, device or stride is not
        the plan's."""
        xv, lacks = view("x", x), 0
        if self.prepared:
            if not isinstance(w, Weights):
                raise TypeError(f"w is a {type(w).__name__}: expected what plan.prepare(w) gave, as the plan has prepared=True")
            if len(xv.shape) == 2:
                _lift(xv)
                lacks = 2
            else:
                lacks = int(len(xv.shape) == 3)
                _rank4("x", xv)
        else:
            xv, wv, lacks = _fit(xv, view("w", w))
        if (xv.shape, xv.device) != (self._x[0], self.device) or xv.stride != self._x[1]:
            raise ValueError(f"x has shape {xv.shape}, strides {xv.stride} on {xv.device}: the plan was made for {self._x[0]}, {self._x[1]} on {self.device}")
        w_address = weights = None
        if self.prepared:
            weights = w.handle
        else:
            w_address = self._checked(wv).address
        bv = view("bias", bias) if bias is not None else None
        if bv is not None:
            _same_device(xv, bias=bv)
        if (bv is not None) != self.bias:
            raise ValueError(f"bias is {'given' if bv is not None else 'missing'} and the plan was made with bias={self.bias}")
        if bv is not None:
            _check_bias(bv, self.y_shape[1])
        if out is None:
            out, address = empty_like_kind(xv, self.y_shape, self.y_bytes)
            out = _drop(out, lacks)
        else:
            ov = _fit_out(view("out", out), lacks)
            _same_device(xv, out=ov)
            address = ov.address
            _check_written(out, ov)
            if tuple(ov.shape) != self.y_shape or tuple(ov.stride) != packed(self.y_shape):
                raise ValueError(f"out has shape {tuple(ov.shape)}, strides {tuple(ov.stride)}: expected {self.y_shape}, packed")
        self.run(xv, w_address, weights, bv.address if bv is not None else None, address)
        return out


def plan(x: Union[Other, Shape, str], w: Union[Other, Shape, None] = None, *, stride: Ints = 1,
         padding: Padding = 0, dilation: Ints = 1, groups: int = 1, bias: bool = False, prepared: bool = False, deterministic: bool = False,
         math: Math = "fp32", rtol: Optional[float] = None, atol: Optional[float] = None,
         engine: Optional[str] = None, exclude: Optional[str] = None, workspace_limit: Optional[int] = None) -> ArrayPlan:
    """A reusable plan for arrays like x and w, for two shapes (packed, CPU), or for a problem string such as "n4c64h128k64r8". x may
    lack N, and x and w may be one image and one kernel, as in conv2d.

    plan(x, w) computes; plan.prepare(w) transforms w once for a plan made with prepared=True; plan.info says what was chosen.
    deterministic: the same bits every time. engine, exclude: names, separated by commas for exclude. Raises as conv2d does.
    """
    return _plan_with("estimate", 0.0, None, x, w, stride, padding, dilation, groups, bias, prepared, deterministic, math, rtol, atol, engine,
                      exclude, workspace_limit)


def _plan_with(effort, time_limit, progress, x, w, stride, padding, dilation, groups, bias, prepared, deterministic, math, rtol, atol,
               engine, exclude, workspace_limit):
    problem, y_shape, device = _problem_of(x, w, stride, padding, dilation, groups)
    options = plan_options(math, rtol, atol, engine, exclude, workspace_limit, bias, prepared, deterministic, effort, time_limit)
    step = contextlib.nullcontext()
    if progress is not None:
        step = _lib.Callback(_lib.PROGRESS_FN, lambda _, done, left, what: int(bool(progress(done, left, what.decode()))), after=1)
        options.progress = step.c
    xs = (problem.n, problem.c, problem.h, problem.w)
    ws = (problem.k, problem.c // problem.groups, problem.r, problem.s)
    x_view = (xs, tuple(problem.x_stride) if problem.strided else packed(xs))
    w_view = (ws, tuple(problem.w_stride) if problem.strided else packed(ws))
    with step:
        return ArrayPlan(problem, options, device, y_shape, x_view, w_view)


def tune(x: Union[Other, Shape, str], w: Union[Other, Shape, None] = None, *, stride: Ints = 1,
         padding: Padding = 0, dilation: Ints = 1, groups: int = 1, bias: bool = False, prepared: bool = False, deterministic: bool = False,
         math: Math = "fp32", rtol: Optional[float] = None, atol: Optional[float] = None,
         exclude: Optional[str] = None, workspace_limit: Optional[int] = None, budget: float = 10.0, progress: bool = True) -> ArrayPlan:
    """Times the likeliest engines and tile sizes within budget seconds, remembers the winner in wisdom (when a file is named,
    see convoy.wisdom) and returns its plan. progress: a bar (needs tqdm; without it no bar), or False."""
    bar = None
    if progress:
        try:
            from tqdm.auto import tqdm

            bar = tqdm(total=100, desc="tune", unit="%", leave=False)
        except ImportError:
            pass

    def step(done, left, what):
        if bar is not None:
            bar.update(max(0, int(100 * done) - bar.n))
            bar.set_postfix_str(f"{what}, {left:.0f} s left", refresh=False)
        return False

    try:
        return _plan_with("measure", budget, step, x, w, stride, padding, dilation, groups, bias, prepared, deterministic, math, rtol, atol, None,
                          exclude, workspace_limit)
    finally:
        if bar is not None:
            bar.close()


def explain(x: Union[Other, Shape, str], w: Union[Other, Shape, None] = None, *, stride: Ints = 1,
            padding: Padding = 0, dilation: Ints = 1, groups: int = 1, bias: bool = False, prepared: bool = False, deterministic: bool = False,
            math: Math = "fp32", rtol: Optional[float] = None, atol: Optional[float] = None,
            engine: Optional[str] = None, exclude: Optional[str] = None, workspace_limit: Optional[int] = None) -> List[Dict[str, Any]]:
    """One dict an engine: chosen, slower (with its time in seconds), or declined (with the reason). Arguments as plan's."""
    problem, _, device = _problem_of(x, w, stride, padding, dilation, groups)
    options = plan_options(math, rtol, atol, engine, exclude, workspace_limit, bias, prepared, deterministic)
    lines = []

    def each(_, line):
        e = line.contents
        lines.append(
            {
                "engine": e.engine.decode(),
                "candidate": e.candidate.decode(),
                "accepted": bool(e.accepted),
                "chosen": bool(e.chosen),
                "predicted_s": e.predicted_s,
                "measured_s": e.measured_s,
                "workspace_bytes": e.workspace_bytes,
                "reason": e.reason.decode() if e.reason else "",
            }
        )

    from ._plan import _lock

    fn = _lib.Callback(_lib.EXPLAIN_FN, each)
    with _lock, fn:
        status = lib.convoy_explain(context(device).handle, problem, options, fn.c, None)
    check(status)
    return lines
