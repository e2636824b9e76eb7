"""The formula of the public header in float64, with SciPy doing the sums."""

import numpy as np
from scipy.signal import correlate2d


def conv2d(x, w, bias=None, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1):
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    t, b, left, r = padding
    x = np.pad(x, ((0, 0), (0, 0), (t, b), (left, r)))
    k, cg = w.shape[:2]
    big = np.zeros((k, cg, dilation[0] * (w.shape[2] - 1) + 1, dilation[1] * (w.shape[3] - 1) + 1))
    big[:, :, ::dilation[0], ::dilation[1]] = w
    planes = [[sum(correlate2d(x[n, j // (k // groups) * cg + c], big[j, c], mode="valid") for c in range(cg)) for j in range(k)]
              for n in range(x.shape[0])]
    y = np.array(planes)[:, :, ::stride[0], ::stride[1]]
    return y if bias is None else y + np.asarray(bias, np.float64)[None, :, None, None]


def bound(x, w):
    """An error allowed to any FP32 algorithm here: a few hundred ulps of the largest possible sum."""
    return 300 * 2.0**-24 * np.abs(w).sum(axis=(1, 2, 3)).max() * np.abs(x).max()
