"""The public conv2d_v2 board's problems, from its description: square images and kernels, as many output channels as input ones
in its tests, the four reference problems as its benchmarks (C stands twice; the last alone is ranked)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    batch: int
    channels: int
    size: int
    outputs: int
    kernel: int

    def __str__(self):
        return f"n{self.batch}c{self.channels}h{self.size}k{self.outputs}r{self.kernel}"


TESTS = [Case(1, 16, 32, 16, 4), Case(2, 16, 32, 16, 4), Case(1, 32, 64, 32, 4), Case(2, 32, 64, 32, 8), Case(1, 64, 128, 64, 8)]
BENCHMARKS = [Case(4, 64, 128, 64, 8), Case(4, 64, 128, 64, 16), Case(2, 128, 256, 128, 16), Case(2, 128, 256, 128, 16), Case(1, 128, 256, 128, 32)]
