"""Runs a submission file by the board's protocol, on the GPU of this machine.

Every case: fresh normal(0,1) input and kernel from a new seed a repeat; the reference is torch's F.conv2d with TF32 off and
deterministic algorithms; each repeat is compared, |got - ref| <= atol + rtol |ref| with no miss allowed and NaN and Inf in the same
places; 256 MiB are written before each timed call; CUDA events time it. Repeats stop when the standard error is below 0.1 %
of the mean, after 100 repeats, or after 10 s of GPU time.
"""

import importlib.util
import json
import math
import secrets
import sys
import time

from .problems import BENCHMARKS, TESTS

RTOL = ATOL = 1e-3
MOST_REPEATS, MOST_SECONDS, ENOUGH = 100, 10.0, 1e-3


def load(path):
    """The submission's custom_kernel, and the seconds that building it took (its first call on a small problem)."""
    spec = importlib.util.spec_from_file_location("submission", path)
    module = importlib.util.module_from_spec(spec)
    start = time.perf_counter()
    spec.loader.exec_module(module)
    if not hasattr(module, "custom_kernel"):
        raise SystemExit(f"{path}: no custom_kernel in it: expected a function of (input, kernel, output)")
    return module.custom_kernel, start


def _draw(torch, case, seed):
    g = torch.Generator(device="cuda").manual_seed(seed)
    x = torch.randn(case.batch, case.channels, case.size, case.size, device="cuda", generator=g)
    w = torch.randn(case.outputs, case.channels, case.kernel, case.kernel, device="cuda", generator=g)
    side = case.size - case.kernel + 1
    return x, w, torch.full((case.batch, case.outputs, side, side), float("nan"), device="cuda")


def compare(torch, got, ref):
    """(misses, largest excess over the tolerance): no element outside it, NaN and Inf in the same places."""
    if got.shape != ref.shape or got.dtype != ref.dtype:
        return ref.numel(), math.inf
    odd = ~torch.isfinite(ref)
    wrong = (torch.isnan(got) != torch.isnan(ref)) | (torch.isinf(ref) & (got != ref)) | (~odd & ~torch.isfinite(got))
    excess = (got.double() - ref.double()).abs() - (ATOL + RTOL * ref.double().abs())
    excess = torch.where(odd, torch.full_like(excess, -1.0), excess)
    return int((wrong | (excess > 0)).sum()), float(excess.max())


def run_case(torch, custom_kernel, case, seed, timed, flush):
    """A dict with misses, repeats and, when timed, the mean in ms and its relative standard error."""
    times, misses, worst, spent = [], 0, -math.inf, 0.0
    while True:  # a miss ends it, so the seed of a miss is the first one plus the repeats less one
        data = _draw(torch, case, seed + len(times))
        ref = torch.nn.functional.conv2d(data[0], data[1])
        flush.fill_(1)
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        got = custom_kernel(data)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
        spent += times[-1] * 1e-3
        bad, excess = compare(torch, got, ref)
        misses, worst = misses + bad, max(worst, excess)
        n, mean = len(times), sum(times) / len(times)
        error = math.sqrt(sum((t - mean) ** 2 for t in times) / (n - 1) / n) / mean if n > 1 else math.inf
        if not timed or misses or n >= MOST_REPEATS or spent >= MOST_SECONDS or (n > 2 and error < ENOUGH):
            break
    return {"problem": str(case), "seed": seed, "misses": misses, "worst_excess": _finite(worst), "repeats": n, "mean_ms": mean,
            "relative_error": _finite(error)}


def _finite(value):
    """JSON knows no infinity."""
    return value if math.isfinite(value) else None


def check(path, seed=None, only_tests=False, out=sys.stdout):
    """Runs all cases and prints a JSON line each; seed: of the first draw, by default another one each time. Returns 0 when all
    passed."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("no CUDA GPU here: the check runs on one")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    seed = secrets.randbelow(1 << 40) if seed is None else seed
    custom_kernel, start = load(path)
    flush = torch.empty(64 << 20, dtype=torch.int32, device="cuda")
    failed = 0
    for timed, cases in ((False, TESTS), (True, [] if only_tests else BENCHMARKS)):
        for case in cases:
            line = run_case(torch, custom_kernel, case, seed, timed, flush)
            seed += 1000
            if start is not None:
                line["first_call_s"], start = time.perf_counter() - start, None
            line["kind"] = "benchmark" if timed else "test"
            failed += line["misses"] > 0
            print(json.dumps(line), file=out, flush=True)
    print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "failed_cases": failed}), file=out, flush=True)
    return 1 if failed else 0
