"""The C library as ctypes sees it: structures and functions of include/convoy/convoy.h, nothing more. python/tests/test_header.py holds them to it."""

import ctypes as ct
import os
import struct
import sys
from pathlib import Path


class ConvoyError(RuntimeError):
    """A call into the library failed; the text is the library's own message."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class ConvoyMemoryError(ConvoyError, MemoryError):
    """Host or device memory ran out."""


class ConvoyValueError(ConvoyError, ValueError):
    """An argument is out of range."""


class UnsupportedError(ConvoyError, NotImplementedError):
    """No engine of this build and machine can serve the request."""


OK, INVALID, UNSUPPORTED, OUT_OF_MEMORY, DEVICE_ERROR, IO_ERROR, INTERNAL = range(7)
CPU, CUDA = 0, 1
MATH = {"fp32": 0, "exact": 1, "match": 2}
MATH_NAMES = {v: k for k, v in MATH.items()}
SOURCES = {0: "estimate", 1: "wisdom", 2: "measure"}


class Problem(ct.Structure):
    _fields_ = (
        [(f, ct.c_int64) for f in "n c h w k r s pad_t pad_b pad_l pad_r stride_h stride_w dil_h dil_w groups".split()]
        + [("layout", ct.c_int), ("dtype", ct.c_int), ("direction", ct.c_int), ("strided", ct.c_int)]
        + [("x_stride", ct.c_int64 * 4), ("w_stride", ct.c_int64 * 4), ("y_stride", ct.c_int64 * 4)]
    )


class Allocator(ct.Structure):
    _fields_ = [("alloc", ct.c_void_p), ("free", ct.c_void_p), ("user", ct.c_void_p)]


LOG_FN = ct.CFUNCTYPE(None, ct.c_void_p, ct.c_int, ct.c_char_p)
PROGRESS_FN = ct.CFUNCTYPE(ct.c_int, ct.c_void_p, ct.c_double, ct.c_double, ct.c_char_p)


class ContextOptions(ct.Structure):
    _fields_ = [
        ("device", ct.c_int),
        ("device_index", ct.c_int),
        ("threads", ct.c_int),
        ("isa", ct.c_char_p),
        ("wisdom", ct.c_char_p),
        ("allocator", Allocator),
        ("log", LOG_FN),
        ("log_user", ct.c_void_p),
    ]


class PlanOptions(ct.Structure):
    _fields_ = [
        ("math", ct.c_int),
        ("rtol", ct.c_double),
        ("atol", ct.c_double),
        ("effort", ct.c_int),
        ("time_limit_s", ct.c_double),
        ("engine", ct.c_char_p),
        ("exclude", ct.c_char_p),
        ("workspace_limited", ct.c_int),
        ("workspace_limit_bytes", ct.c_size_t),
        ("bias", ct.c_int),
        ("prepared", ct.c_int),
        ("deterministic", ct.c_int),
        ("weights", ct.c_void_p),
        ("progress", PROGRESS_FN),
        ("progress_user", ct.c_void_p),
    ]


class PlanInfo(ct.Structure):
    _fields_ = [
        ("problem", Problem),
        ("engine", ct.c_char_p),
        ("engine_revision", ct.c_int),
        ("candidate", ct.c_char_p),
        ("math", ct.c_int),
        ("device", ct.c_int),
        ("source", ct.c_int),
        ("predicted_s", ct.c_double),
        ("measured_s", ct.c_double),
        ("spread_s", ct.c_double),
        ("workspace_bytes", ct.c_size_t),
        ("threads", ct.c_int),
        ("deterministic", ct.c_int),
        ("error_bound_kind", ct.c_int),
        ("error_bound_factor", ct.c_double),
        ("tile_h", ct.c_int),
        ("tile_w", ct.c_int),
    ]


class Explanation(ct.Structure):
    _fields_ = [
        ("engine", ct.c_char_p),
        ("candidate", ct.c_char_p),
        ("accepted", ct.c_int),
        ("chosen", ct.c_int),
        ("predicted_s", ct.c_double),
        ("measured_s", ct.c_double),
        ("workspace_bytes", ct.c_size_t),
        ("reason", ct.c_char_p),
    ]


class EngineInfo(ct.Structure):
    _fields_ = [
        ("name", ct.c_char_p),
        ("revision", ct.c_int),
        ("device", ct.c_int),
        ("keeps_exact", ct.c_int),
        ("transform", ct.c_int),
        ("vendor", ct.c_int),
        ("by_name_only", ct.c_int),
        ("about", ct.c_char_p),
    ]


class Args(ct.Structure):
    _fields_ = [
        ("struct_bytes", ct.c_size_t),
        ("x", ct.c_void_p),
        ("w", ct.c_void_p),
        ("weights", ct.c_void_p),
        ("bias", ct.c_void_p),
        ("y", ct.c_void_p),
        ("workspace", ct.c_void_p),
        ("workspace_bytes", ct.c_size_t),
        ("stream", ct.c_void_p),
    ]


class Timing(ct.Structure):
    _fields_ = [("runs", ct.c_int), ("median_s", ct.c_double), ("p10_s", ct.c_double), ("p90_s", ct.c_double)]


EXPLAIN_FN = ct.CFUNCTYPE(None, ct.c_void_p, ct.POINTER(Explanation))
WISDOM_FN = ct.CFUNCTYPE(None, ct.c_void_p, ct.c_char_p, ct.c_char_p, ct.c_char_p)

_P = ct.c_void_p
_SIGNATURES = {
    "convoy_last_message": (ct.c_char_p, []),
    "convoy_version": (ct.c_char_p, []),
    "convoy_problem_parse": (ct.c_int, [ct.c_char_p, ct.POINTER(Problem)]),
    "convoy_problem_print": (ct.c_size_t, [ct.POINTER(Problem), ct.c_char_p, ct.c_size_t]),
    "convoy_problem_check": (ct.c_int, [ct.POINTER(Problem)]),
    "convoy_problem_output": (ct.c_int, [ct.POINTER(Problem), ct.POINTER(ct.c_int64), ct.POINTER(ct.c_int64)]),
    "convoy_context_create": (ct.c_int, [ct.POINTER(ContextOptions), ct.POINTER(_P)]),
    "convoy_context_destroy": (None, [_P]),
    "convoy_context_info": (ct.c_char_p, [_P]),
    "convoy_plan_create": (ct.c_int, [_P, ct.POINTER(Problem), ct.POINTER(PlanOptions), ct.POINTER(_P)]),
    "convoy_plan_destroy": (None, [_P]),
    "convoy_plan_workspace_bytes": (ct.c_size_t, [_P]),
    "convoy_plan_describe": (ct.c_int, [_P, ct.POINTER(PlanInfo)]),
    "convoy_explain": (ct.c_int, [_P, ct.POINTER(Problem), ct.POINTER(PlanOptions), EXPLAIN_FN, _P]),
    "convoy_engine": (ct.POINTER(EngineInfo), [ct.c_int]),
    "convoy_weights_create": (ct.c_int, [_P, _P, _P, ct.POINTER(_P)]),
    "convoy_weights_destroy": (None, [_P]),
    "convoy_weights_bytes": (ct.c_size_t, [_P]),
    "convoy_execute": (ct.c_int, [_P, ct.POINTER(Args)]),
    "convoy_measure": (ct.c_int, [_P, ct.c_double, ct.POINTER(Timing)]),
    "convoy_wisdom_each": (ct.c_int, [ct.c_char_p, WISDOM_FN, _P, ct.POINTER(ct.c_int)]),
    "convoy_wisdom_merge": (ct.c_int, [ct.c_char_p, ct.c_char_p]),
    "convoy_wisdom_clear": (ct.c_int, [ct.c_char_p]),
}


def _find():
    """CONVOY_LIBRARY, the library inside the package, then whatever the loader knows."""
    named = os.environ.get("CONVOY_LIBRARY")
    if named:
        return named
    here = Path(__file__).resolve().parent
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    inside = sorted(here.glob(f"libconvoy{suffix}*"))
    return str(inside[0]) if inside else f"libconvoy{suffix}"


def _load():
    path = _find()
    try:
        library = ct.CDLL(path)  # a CDLL lets go of the interpreter's lock while the library runs
    except OSError as error:
        raise ImportError(f"the Convoy library was not found at {path!r} (set CONVOY_LIBRARY to its path): {error}") from None
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


lib = _load()


def text(name, value):
    """A str or path as C's text; ValueError where C would see the beginning alone."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} is a {type(value).__name__}: expected a str")
    encoded = os.fsencode(value)
    if b"\0" in encoded:
        raise ValueError(f"{name} is {value!r}: expected no zero byte")
    return encoded


class Callback:
    """A Python function for C to call, as `c`, in a with statement that raises what the function raised; until then it is called no
    more and answers `after`. By itself ctypes prints an exception and goes on, and an interrupt from the keyboard always comes in a
    callback: before its first line, where only sys.unraisablehook sees it."""

    def __init__(self, kind, function, after=None):
        self.error = None

        def call(*arguments):
            if self.error is None:
                try:
                    return function(*arguments)
                except BaseException as error:
                    self.error = error
            return after

        self.call, self.c = call, kind(call)

    def _unraisable(self, it):
        if it.object is self.call:
            self.error = self.error or it.exc_value or KeyboardInterrupt()
        else:
            self.before(it)

    def __enter__(self):
        self.before, self.hook = sys.unraisablehook, self._unraisable
        sys.unraisablehook = self.hook
        return self

    def __exit__(self, *_):
        if sys.unraisablehook is self.hook:
            sys.unraisablehook = self.before
        error, self.error, self.hook = self.error, None, None
        if error is not None:
            raise error


# convoy_execute for every call: its arguments as packed bytes, which take a third of the time of an Args.
pack_args = struct.Struct("@" + "".join("N" if kind is ct.c_size_t else "P" for _, kind in Args._fields_)).pack
execute = lib["convoy_execute"]
execute.restype, execute.argtypes = ct.c_int, [_P, ct.c_char_p]


def check(status):
    """Raises the exception that fits a status other than OK."""
    if status == OK:
        return
    message = lib.convoy_last_message().decode("utf-8", "replace")
    kind = {INVALID: ConvoyValueError, UNSUPPORTED: UnsupportedError, OUT_OF_MEMORY: ConvoyMemoryError}.get(status, ConvoyError)
    raise kind(status, message)
