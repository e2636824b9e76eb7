"""Contexts, plans and prepared weights as Python objects."""

from __future__ import annotations

import ctypes as ct
import math
import operator
import os
import threading
import weakref
from collections import OrderedDict
from typing import Any, Dict, List, Optional, Tuple, Union

from . import _lib
from ._arguments import make_problem
from ._lib import check, execute, lib, pack_args
from ._tensor import View, scratch, stream_of, view

_ARGS_BYTES = ct.sizeof(_lib.Args)
_MOST_BYTES = ct.c_size_t(-1).value
_lock = threading.RLock()  # plans of one context are made by one thread at a time
_contexts = {}
_wisdom = None  # path, or None for what CONVOY_WISDOM says


def _forget_after_fork():
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_forget_after_fork)


def _let_go(owner, destroy, handle):
    """Destroys with the owner, but not when the interpreter ends: a daemon thread may be computing still."""
    weakref.finalize(owner, destroy, handle).atexit = False


class Context:
    """A device with its threads and wisdom. Made on demand, one a device."""

    def __init__(self, device, wisdom=None):
        options = _lib.ContextOptions()
        options.device = _lib.CUDA if device[0] == "cuda" else _lib.CPU
        options.device_index = device[1]
        options.wisdom = _lib.text("wisdom", wisdom) if wisdom else None
        self.handle = ct.c_void_p()
        check(lib.convoy_context_create(options, self.handle))
        _let_go(self, lib.convoy_context_destroy, self.handle.value)

    @property
    def info(self) -> Dict[str, str]:
        """Facts about the machine, as a dict of strings."""
        text = lib.convoy_context_info(self.handle).decode()
        return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


def context(device: Tuple[str, int] = ("cpu", 0)) -> Context:
    """The context of a device, made on the first call: ("cpu", 0) or ("cuda", index)."""
    with _lock:
        if device not in _contexts:
            _contexts[device] = Context(device, _wisdom)
        return _contexts[device]


def wisdom_path() -> Optional[str]:
    """The wisdom file in use, or None."""
    named = _wisdom or os.environ.get("CONVOY_WISDOM")
    return None if named in (None, "", "off") else named


def info(device: str = "cpu") -> Dict[str, str]:
    """Facts about this machine as the library sees it, as a dict of strings. device: "cpu", "cuda" or "cuda:1"."""
    name, _, index = str(device).partition(":")
    if name not in ("cpu", "cuda") or not (index or "0").isdigit():
        raise ValueError(f"device is {device!r}: expected 'cpu', 'cuda' or 'cuda:I'")
    return context((name, int(index or 0))).info


def engines() -> List[Dict[str, Any]]:
    """The engines of this build: a dict each."""
    out = []
    while True:
        e = lib.convoy_engine(len(out))
        if not e:
            return out
        e = e.contents
        out.append({"engine": e.name.decode(), "revision": e.revision, "device": "cuda" if e.device == _lib.CUDA else "cpu",
                    "exact": bool(e.keeps_exact), "transform": bool(e.transform), "vendor": bool(e.vendor),
                    "by_name_only": bool(e.by_name_only), "about": e.about.decode()})


def use_wisdom(path: Union[str, os.PathLike, None]) -> None:
    """Names the wisdom file for contexts made from now on; existing ones are let go."""
    global _wisdom
    with _lock:
        _wisdom = None if path is None else os.fsdecode(_lib.text("path", path))
        _contexts.clear()
        _plans.clear()


def plan_options(math="fp32", rtol=None, atol=None, engine=None, exclude=None, workspace_limit=None, bias=False, prepared=False,
                 deterministic=False, effort="estimate", time_limit=0.0):
    """PlanOptions from Python values, with F.conv2d's kind of errors."""
    if math not in _lib.MATH:
        raise ValueError(f"math is {math!r}: expected one of {', '.join(map(repr, _lib.MATH))}")
    if math == "match" and rtol is None and atol is None:
        rtol = atol = 1e-3
    if math != "match" and (rtol is not None or atol is not None):
        raise ValueError(f"rtol and atol are given with math={math!r}: expected math='match'")
    if effort not in ("estimate", "measure"):
        raise ValueError(f"effort is {effort!r}: expected 'estimate' or 'measure'")
    o = _lib.PlanOptions()
    o.math, o.rtol, o.atol = _lib.MATH[math], rtol or 0.0, atol or 0.0
    o.effort, o.time_limit_s = int(effort == "measure"), time_limit
    o.engine = _lib.text("engine", engine) if engine else None
    o.exclude = _lib.text("exclude", exclude) if exclude else None
    if workspace_limit is not None:
        if not hasattr(workspace_limit, "__index__"):
            raise TypeError(f"workspace_limit is {workspace_limit!r}: expected bytes as an int")
        if workspace_limit < 0:
            raise ValueError(f"workspace_limit is {workspace_limit}: expected bytes, 0 or more")
        o.workspace_limited, o.workspace_limit_bytes = 1, min(operator.index(workspace_limit), _MOST_BYTES)
    o.bias, o.prepared, o.deterministic = int(bias), int(prepared), int(deterministic)
    return o


class Weights:
    """w transformed once by Plan.prepare; serves every plan with the same engine, candidate and shape of w."""

    def __init__(self, handle):
        self.handle = handle
        self.nbytes = lib.convoy_weights_bytes(handle)
        _let_go(self, lib.convoy_weights_destroy, handle)


class Plan:
    """The engine and tuning choice for one problem. Immutable; any number of threads may call it at once.

    plan(x, w, bias=None, out=None) computes y; with a plan made by prepared=True, w is what prepare(w) gave.
    """

    def __init__(self, problem, options, device, y_shape):
        handle = ct.c_void_p()
        with _lock:
            check(lib.convoy_plan_create(context(device).handle, problem, options, handle))
        self.handle, self.device, self.y_shape, self.y_bytes = handle.value, device, y_shape, 4 * math.prod(y_shape)
        self.workspace_bytes = lib.convoy_plan_workspace_bytes(handle)
        self.bias, self.prepared = bool(options.bias), bool(options.prepared)
        _let_go(self, lib.convoy_plan_destroy, self.handle)

    @property
    def info(self) -> Dict[str, Any]:
        """What was chosen and why, as a dict."""
        i = _lib.PlanInfo()
        check(lib.convoy_plan_describe(self.handle, i))
        text = ct.create_string_buffer(256)
        lib.convoy_problem_print(i.problem, text, 256)
        return {
            "problem": text.value.decode(),
            "engine": i.engine.decode(),
            "engine_revision": i.engine_revision,
            "candidate": i.candidate.decode(),
            "math": _lib.MATH_NAMES[i.math],
            "source": _lib.SOURCES[i.source],
            "predicted_s": i.predicted_s,
            "measured_s": i.measured_s,
            "workspace_bytes": i.workspace_bytes,
            "threads": i.threads,
            "deterministic": bool(i.deterministic),
        }

    def __repr__(self):
        i = self.info
        return f"<convoy.Plan {i['problem']} {i['engine']}:{i['candidate']} math={i['math']}>"

    def prepare(self, w: Any) -> Weights:
        """Transforms w once (for inference); w must have the shape and strides that the plan was made for."""
        v = view("w", w)
        handle = ct.c_void_p()
        check(lib.convoy_weights_create(self.handle, v.address, stream_of(v), handle))
        return Weights(handle.value)

    def run(self, x: View, w_address: Optional[int], weights: Optional[int], bias_address: Optional[int], y_address: int) -> None:
        """Executes on addresses; x is a View, whose device gives workspace and stream."""
        nbytes = self.workspace_bytes
        room, owner = scratch(x, nbytes) if nbytes else (0, None)
        status = execute(self.handle, pack_args(_ARGS_BYTES, x.address, w_address or 0, weights or 0, bias_address or 0, y_address, room, nbytes,
                                                stream_of(x) or 0))
        if status:
            check(status)


_plans = OrderedDict()
_MOST_PLANS = 256


def cached_plan(key, build):
    """The plan of a key; least recently used ones are let go."""
    plan = _plans.get(key)
    if plan is not None and len(_plans) <= _MOST_PLANS // 2:
        return plan  # nothing is about to be let go, so the order does not matter
    with _lock:
        plan = _plans.get(key)
        if plan is None:
            plan = build()
            _plans[key] = plan
            if len(_plans) > _MOST_PLANS:
                _plans.popitem(last=False)
        else:
            _plans.move_to_end(key)
        return plan
