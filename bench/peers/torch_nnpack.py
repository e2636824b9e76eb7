#!/usr/bin/env python3
"""NNPACK, as PyTorch carries it, on a CPU by convoy bench's rules: two runs to warm up, the median of at least five, inputs in turns so
that they exceed L2, an error against FP64 at 256 outputs.

    bench/peers/torch_nnpack.py PROBLEM...            JSON lines with the keys of convoy bench --json
    bench/peers/torch_nnpack.py --add RESULT.json     adds them to a results file, for its problems

Run it right after the bench whose peer it is. NNPACK does kernels up to 16 x 16 without stride, dilation or groups; others are left
out. PyTorch passes w as it is, so its transform is part of every run."""
import argparse
import statistics
import time

import torch
from torch_gpu import parse, report

SETS, SECONDS = 3, 0.5


def error(x, w, y, padding, count=256):
    """Largest error at some outputs, and rms error over rms, against sums in FP64."""
    generator = torch.Generator().manual_seed(1)
    padded = torch.nn.functional.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    off, square, total = 0.0, 0.0, 0.0
    for _ in range(count):
        n, k, p, q = (int(torch.randint(d, (1,), generator=generator)) for d in y.shape)
        truth = float((padded[n, :, p:p + w.shape[2], q:q + w.shape[3]].double() * w[k].double()).sum())
        wrong = abs(float(y[n, k, p, q]) - truth)
        off, square, total = max(off, wrong), square + wrong**2, total + truth**2
    return off, (square / total)**0.5


def lines(text):
    n, c, h, w, k, r, s, stride, (top, bottom, left, right), dilation, groups = parse(text)
    if max(r, s) > 16 or stride != [1, 1] or dilation != [1, 1] or groups > 1 or (top, left) != (bottom, right):
        return
    torch.manual_seed(1)
    xs, ws = [torch.randn(n, c, h, w) for _ in range(SETS)], [torch.randn(k, c, r, s) for _ in range(SETS)]

    def call(i):
        return torch._nnpack_spatial_convolution(xs[i % SETS], ws[i % SETS], None, [top, left], [1, 1])

    y = call(0)
    call(1)
    ms, begun = [], time.perf_counter()
    while len(ms) < 5 or time.perf_counter() - begun < SECONDS and len(ms) < 101:
        at = time.perf_counter()
        call(len(ms))
        ms.append(1e3 * (time.perf_counter() - at))
    ms.sort()
    worst, rms = error(xs[0], ws[0], y, (top, left))
    median = statistics.median(ms)
    yield {"problem": text, "engine": "nnpack", "candidate": "", "peer": True, "weights": "fresh", "device": "cpu",
           "threads": torch.get_num_threads(), "median_ms": round(median, 6), "p10_ms": round(ms[len(ms) // 10], 6),
           "p90_ms": round(ms[len(ms) * 9 // 10], 6), "runs": len(ms),
           "direct_gflop_per_s": float(f"{2e-6 * y.numel() * c * r * s / median:.6g}"),
           "max_abs_err": float(f"{worst:.3g}"), "rel_rms_err": float(f"{rms:.3g}")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--add", metavar="RESULT.json")
    parser.add_argument("problems", nargs="*", metavar="PROBLEM")
    options = parser.parse_args()
    if not torch.backends.nnpack.is_available():
        raise SystemExit("torch_nnpack.py: this PyTorch has no NNPACK, or NNPACK does not know this processor")
    report(options.add, options.problems, lines, f"bench/peers/torch_nnpack.py (PyTorch {torch.__version__})")


if __name__ == "__main__":
    main()
