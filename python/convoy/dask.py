"""Images larger than memory, or a cluster: conv2d on a dask.array, chunk by chunk with exact seams."""

from __future__ import annotations

import math as _math
from typing import Any, Optional

import dask.array as da
import numpy as np

from . import _conv
from ._arguments import make_problem
from ._plan import plan_options
from ._tensor import packed
from ._types import Ints, Padding

__all__ = ["conv2d"]


def _spans(outputs, chunk, stride, before, taps, dilation, size):
    """Per chunk of outputs: the slice of the image that it reads, and the zeros that it lacks on either side."""
    reach = dilation * (taps - 1)
    spans = []
    for first in range(0, outputs, chunk):
        last = min(outputs, first + chunk) - 1
        low, high = first * stride - before, last * stride - before + reach + 1
        spans.append((min(max(low, 0), size), max(min(high, size), 0), max(0, -low), max(0, high - size), last - first + 1))
    return spans


def _block(x, w, bias, pads, options):
    return _conv.conv2d(np.ascontiguousarray(x), w, bias, padding=pads, **options)


def conv2d(x: da.Array, w: np.ndarray, bias: Optional[np.ndarray] = None, *, stride: Ints = 1,
           padding: Padding = 0, dilation: Ints = 1, groups: int = 1,
           chunk: Optional[Ints] = None, **options: Any) -> da.Array:
    """convoy.conv2d of a dask array x (N, C, H, W) with NumPy w and bias, as a dask array (N, K, P, Q).

    Each output chunk reads its window of x (its own rows and columns plus the kernel's reach), so seams are exact: in
    math="exact" the result has the bits of the one-machine call. chunk: output rows and columns a chunk (an int or a
    pair); by default about x's own chunks. Channels are read whole. options go to convoy.conv2d.
    """
    if not isinstance(x, da.Array) or x.ndim != 4:
        raise TypeError(f"x is a {type(x).__name__}: expected a dask array of 4 dimensions (N, C, H, W)")
    if x.dtype != np.float32:
        raise TypeError(f"x is {x.dtype}: expected float32 (convert it with astype)")
    w = np.ascontiguousarray(w)
    if w.ndim != 4:
        raise ValueError(f"w has shape {w.shape}: expected 4 dimensions (K, C/G, R, S)")
    if any(size != size for size in x.shape):
        raise ValueError(f"x has shape {x.shape}: expected known sizes (x.compute_chunk_sizes())")
    plan_options(**options)  # wrong options are told here, not by a worker
    p, (_, k, P, Q) = make_problem(x.shape, packed(x.shape), w.shape, packed(w.shape), stride, padding, dilation, groups)
    if bias is not None:
        bias = np.ascontiguousarray(bias, np.float32)
        if bias.shape != (k,):
            raise ValueError(f"bias has shape {bias.shape}: expected ({k},), one value an output channel")
    (sh, sw), (t, b, left, right), (dh, dw) = (p.stride_h, p.stride_w), (p.pad_t, p.pad_b, p.pad_l, p.pad_r), (p.dil_h, p.dil_w)
    r, s, h, width = p.r, p.s, p.h, p.w
    if chunk is None:
        chunk = (max(1, _math.ceil(max(x.chunks[2]) / sh)), max(1, _math.ceil(max(x.chunks[3]) / sw)))
    ch, cw = (chunk, chunk) if isinstance(chunk, int) else chunk
    if min(ch, cw) < 1:
        raise ValueError(f"chunk is {chunk!r}: expected 1 or more output rows and columns")
    rows, columns = _spans(P, ch, sh, t, r, dh, h), _spans(Q, cw, sw, left, s, dw, width)
    settings = dict(options, stride=(sh, sw), dilation=(dh, dw), groups=groups)
    batches, first = [], 0
    for count in x.chunks[0]:
        part = x[first:first + count]
        grid = []
        for y0, y1, pt, pb, p in rows:
            line = []
            for x0, x1, pl, pr, q in columns:
                window = part[:, :, y0:y1, x0:x1].rechunk(-1)
                block = da.map_blocks(_block, window, w, bias, (pt, pb, pl, pr), settings, dtype=np.float32,
                                      chunks=((count,), (k,), (p,), (q,)), meta=np.empty((0, 0, 0, 0), np.float32))
                line.append(block)
            grid.append(line)
        batches.append(da.block(grid))
        first += count
    return da.concatenate(batches, axis=0) if len(batches) > 1 else batches[0]
