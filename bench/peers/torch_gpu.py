#!/usr/bin/env python3
"""PyTorch's convolution on a CUDA GPU, held to FP32 and timed by convoy bench's rules: L2 overwritten before every call, events
around it, the median of 20 after two to warm up, errors against FP64 at 256 outputs.

    bench/peers/torch_gpu.py PROBLEM...            JSON lines with the keys of convoy bench --json
    bench/peers/torch_gpu.py --add RESULT.json     adds them to a results file, for its problems

Run it right after the bench whose peer it is. Ways: the default, and deterministic, which on most problems is the serial chain that
the contract `exact` reproduces; --benchmark adds cuDNN's own search. Paddings that differ are made beforehand, untimed."""
import argparse
import json
import re

import torch
import torch.nn.functional as F

WAYS = {"": (False, False), ", deterministic": (False, True), ", benchmark": (True, False)}


def pair(text):
    numbers = [int(n) for n in text.split("x")]
    return numbers * (3 - len(numbers))


def parse(text):
    """n, c, h, w, k, r, s, stride, padding (top, bottom, left, right), dilation, groups of a problem string."""
    m = re.fullmatch(r"(?:n(\d+))?c(\d+)h(\d+)(?:w(\d+))?(?:k(\d+))?r(\d+)(?:s(\d+))?((?:_[a-z0-9x,]+)*)", text)
    if not m:
        raise SystemExit(f"{text}: expected a problem such as n4c64h128k64r8")
    n, c, h, w, k, r, s = (int(v) if v else None for v in m.groups()[:7])
    n, w, k, s = n or 1, w or h, k or c, s or r
    stride, padding, dilation, groups = [1, 1], [0, 0, 0, 0], [1, 1], 1
    for part in filter(None, m.group(8).split("_")):
        if part.startswith("st"):
            stride = pair(part[2:])
        elif part.startswith("dil"):
            dilation = pair(part[3:])
        elif part.startswith("g"):
            groups = c if part == "gc" else int(part[1:])
        elif part.startswith("pad") and "," in part:
            padding = [int(v) for v in part[3:].split(",")]
        elif part.startswith("pad") and part != "padsame":
            down, across = pair(part[3:])
            padding = [down, down, across, across]
    if "_padsame" in text:
        down, across = dilation[0] * (r - 1), dilation[1] * (s - 1)
        padding = [down // 2, down - down // 2, across // 2, across - across // 2]
    return n, c, h, w, k, r, s, stride, padding, dilation, groups


def timed(call, flush, runs=20):
    for _ in range(2):
        call()
    ms = []
    for _ in range(runs):
        flush.fill_(7)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        ms.append(begin.elapsed_time(end))
    return sorted(ms)


def errors(x, w, y, stride, dilation, groups, count=256):
    """Largest error at some outputs and rms error over rms, against sums in FP64; x is padded."""
    generator = torch.Generator().manual_seed(1)
    kg, cg, r, s = y.shape[1] // groups, *w.shape[1:]
    off, square, total = 0.0, 0.0, 0.0
    rows = torch.arange(r, device="cuda") * dilation[0]
    columns = torch.arange(s, device="cuda") * dilation[1]
    for _ in range(count):
        n, k, p, q = (int(torch.randint(d, (1,), generator=generator)) for d in y.shape)
        window = x[n, k // kg * cg:(k // kg + 1) * cg][:, p * stride[0] + rows][:, :, q * stride[1] + columns]
        truth = float((window.double() * w[k].double()).sum())
        error = abs(float(y[n, k, p, q]) - truth)
        off, square, total = max(off, error), square + error**2, total + truth**2
    return off, (square / total)**0.5 if total else 0.0


def lines(text, ways, flush):
    n, c, h, w, k, r, s, stride, (top, bottom, left, right), dilation, groups = parse(text)
    torch.manual_seed(1)
    x, weights = torch.randn(n, c, h, w, device="cuda"), torch.randn(k, c // groups, r, s, device="cuda")
    padded = F.pad(x, (left, right, top, bottom))
    even = top == bottom and left == right
    given, padding = (x, (top, left)) if even else (padded, (0, 0))
    for way in ways:
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = WAYS[way]

        def call():
            return F.conv2d(given, weights, None, stride, padding, dilation, groups)

        y = call()
        ms = timed(call, flush)
        worst, rms = errors(padded, weights, y, stride, dilation, groups)
        median = (ms[9] + ms[10]) / 2
        yield {"problem": text, "engine": "PyTorch cuDNN strict" + way, "candidate": "", "peer": True, "weights": "fresh", "device": "cuda",
               "median_ms": round(median, 6), "p10_ms": round(ms[1], 6), "p90_ms": round(ms[18], 6), "runs": len(ms),
               "direct_gflop_per_s": float(f"{2e-6 * y.numel() * (c // groups) * r * s / median:.6g}"),
               "max_abs_err": float(f"{worst:.3g}"), "rel_rms_err": float(f"{rms:.3g}")}


def report(add, problems, lines, note):
    """Prints the lines that lines(problem) makes, for these problems or else for those of the file `add`, which gets them too."""
    result = {"lines": []}
    if add:
        with open(add, encoding="utf-8") as file:
            result = json.load(file)
    for problem in problems or list(dict.fromkeys(line["problem"] for line in result["lines"])):
        for line in lines(problem):
            print(json.dumps(line), flush=True)
            result["lines"].append(line)
    if add:
        result["command"] += ", then " + note
        head = json.dumps({key: value for key, value in result.items() if key != "lines"}, indent=1)
        with open(add, "w", encoding="utf-8") as file:
            file.write(head[:-2] + ',\n "lines": [\n' + ",\n".join("  " + json.dumps(line) for line in result["lines"]) + "\n ]\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--add", metavar="RESULT.json")
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("problems", nargs="*", metavar="PROBLEM")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    flush = torch.empty(64 << 20, dtype=torch.int32, device="cuda")
    ways = [way for way in WAYS if way != ", benchmark" or options.benchmark]
    report(options.add, options.problems, lambda problem: lines(problem, ways, flush),
           f"bench/peers/torch_gpu.py (PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()})")


if __name__ == "__main__":
    main()
