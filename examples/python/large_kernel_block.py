"""A network block with a large depthwise kernel, swapped to Convoy by convoy.torch.patch: same parameters, same results.

    python examples/python/large_kernel_block.py [--kernel 31] [--channels 96] [--size 56] [--batch 2]

Runs on the GPU when PyTorch sees one.
"""
import argparse
import copy
import time

import torch

import convoy.torch


class Block(torch.nn.Module):
    """Norm, a large depthwise convolution beside a small one, and a pointwise bottleneck, around an identity."""

    def __init__(self, channels, kernel):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(channels)
        self.large = torch.nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels)
        self.small = torch.nn.Conv2d(channels, channels, 5, padding=2, groups=channels)
        self.widen = torch.nn.Conv2d(channels, 4 * channels, 1)
        self.narrow = torch.nn.Conv2d(4 * channels, channels, 1)

    def forward(self, x):
        y = self.norm(x)
        y = self.large(y) + self.small(y)
        return x + self.narrow(torch.nn.functional.gelu(self.widen(y)))


def milliseconds(model, x):
    """Median of five forward passes."""
    def wait():
        if x.is_cuda:
            torch.cuda.synchronize()

    times = []
    with torch.no_grad():
        for _ in range(7):
            wait()
            start = time.perf_counter()
            model(x)
            wait()
            times.append(1e3 * (time.perf_counter() - start))
    return sorted(times[2:])[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("kernel", 31), ("channels", 96), ("size", 56), ("batch", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.allow_tf32 = False  # FP32 on both sides
    model = torch.nn.Sequential(Block(options.channels, options.kernel), Block(options.channels, options.kernel)).to(device)
    patched = copy.deepcopy(model)
    convoy.torch.patch(patched, min_kernel=7)
    x = torch.randn(options.batch, options.channels, options.size, options.size, device=device)

    for net in (model, patched):  # one step of training each, from the same weights
        net(x).square().mean().backward()
    worst = max(float((p.grad - q.grad).abs().max() / p.grad.abs().max().clamp_min(1e-12)) for p, q in zip(model.parameters(), patched.parameters()))
    model.eval(), patched.eval()
    patched.load_state_dict(model.state_dict())
    with torch.no_grad():
        difference = float((model(x) - patched(x)).abs().max())
    print(f"{device}: outputs differ by {difference:.1e} at most, gradients by {worst:.1e} of their largest")
    print(f"forward: PyTorch {milliseconds(model, x):.1f} ms, with Convoy {milliseconds(patched, x):.1f} ms")
    if difference > 1e-4 or worst > 1e-2:
        raise SystemExit("the swapped model computes something else")


if __name__ == "__main__":
    main()
