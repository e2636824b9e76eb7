"""F.conv2d's arguments, checked and turned into a Problem."""

import operator

from . import _lib
from ._tensor import packed


_LONGEST = 2**63 - 1  # ctypes would cut off what does not fit, and compute something else


def _pair(name, value, least):
    if isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}: expected an int or a pair of ints")
    try:
        both = (operator.index(value),) * 2 if hasattr(value, "__index__") and not getattr(value, "shape", ()) else \
            tuple(operator.index(v) for v in value)
    except (TypeError, AttributeError):
        raise TypeError(f"{name} is {value!r}: expected an int or a pair of ints") from None
    if len(both) == 1:
        both = both * 2
    if len(both) != 2:
        raise ValueError(f"{name} is {value!r}: expected an int or a pair of ints")
    if min(both) < least:
        raise ValueError(f"{name} is {value!r}: expected {least} or more")
    if max(both) > _LONGEST:
        raise ValueError(f"{name} is {value!r}: expected {_LONGEST} at most")
    return both


def _padding(value, kernel, stride, dilation):
    """Four amounts: top, bottom, left, right."""
    if isinstance(value, str):
        if value == "valid":
            return 0, 0, 0, 0
        if value != "same":
            raise ValueError(f"padding is {value!r}: expected 'same', 'valid', an int, a pair, or top, bottom, left, right")
        if stride != (1, 1):
            raise ValueError(f"padding is 'same' with stride {stride}: expected stride 1")
        total = [d * (k - 1) for d, k in zip(dilation, kernel)]
        return total[0] // 2, total[0] - total[0] // 2, total[1] // 2, total[1] - total[1] // 2
    if getattr(value, "shape", None) != () and hasattr(value, "__len__") and len(value) == 4:
        (t, b), (left, r) = _pair("padding", value[:2], 0), _pair("padding", value[2:], 0)
        return t, b, left, r
    h, w = _pair("padding", value, 0)
    return h, h, w, w


def geometry(kernel, stride, padding, dilation):
    """((stride_h, stride_w), (t, b, l, r), (dil_h, dil_w))."""
    stride = _pair("stride", stride, 1)
    dilation = _pair("dilation", dilation, 1)
    return stride, _padding(padding, kernel, stride, dilation), dilation


def make_problem(x_shape, x_stride, w_shape, w_stride, stride, padding, dilation, groups, y_stride=None, out_shape=None, lacks=0):
    """Shapes of rank 4, strides in elements; y_stride and out_shape (as it was given, perhaps without y's first
    lacks dimensions) are those of the caller's output, if any. Returns the Problem and y's shape."""
    if isinstance(groups, bool) or not hasattr(groups, "__index__") or not 1 <= groups.__index__() <= _LONGEST:
        raise ValueError(f"groups is {groups!r}: expected an int of 1 or more")
    groups = operator.index(groups)
    for name, shape in (("x", x_shape), ("w", w_shape)):
        if max(map(operator.index, shape)) > _LONGEST:
            raise ValueError(f"{name} has shape {tuple(shape)}: expected sizes of {_LONGEST} at most")
    n, c, h, w = x_shape
    k, cg, r, s = w_shape
    if cg * groups != c:
        raise ValueError(
            f"w has shape {tuple(w_shape)} and groups is {groups}: expected x to have {cg * groups} channels, but x has shape {tuple(x_shape)}"
        )
    (sh, sw), (pt, pb, pl, pr), (dh, dw) = geometry((r, s), stride, padding, dilation)
    p = _lib.Problem(n, c, h, w, k, r, s, pt, pb, pl, pr, sh, sw, dh, dw, groups)
    out = (_lib.ct.c_int64(), _lib.ct.c_int64())
    _lib.check(_lib.lib.convoy_problem_output(p, out[0], out[1]))
    y_shape = (n, k, out[0].value, out[1].value)
    if out_shape is not None and tuple(out_shape) not in (y_shape, y_shape[lacks:]):
        raise ValueError(f"out has shape {tuple(out_shape)}: expected {y_shape[lacks:]}")
    strides = (x_stride, w_stride, y_stride or packed(y_shape))
    if any(tuple(got) != packed(shape) for got, shape in zip(strides, (x_shape, w_shape, y_shape))):
        p.strided = 1
        for field, got in zip((p.x_stride, p.w_stride, p.y_stride), strides):
            field[:] = got
        _lib.check(_lib.lib.convoy_problem_check(p))
    return p, y_shape
