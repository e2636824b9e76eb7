"""Convoy: strict-FP32 2-D convolution with large kernels on CPUs and NVIDIA GPUs."""

from ._conv import ArrayPlan, conv2d, explain, plan, tune
from ._lib import ConvoyError, ConvoyMemoryError, ConvoyValueError, UnsupportedError, lib as _library
from ._memory import release_memory
from ._plan import Plan, Weights, context, engines, info
from . import wisdom

__version__ = _library.convoy_version().decode()
__all__ = [
    "ArrayPlan",
    "ConvoyError",
    "ConvoyMemoryError",
    "ConvoyValueError",
    "Plan",
    "UnsupportedError",
    "Weights",
    "context",
    "conv2d",
    "engines",
    "explain",
    "info",
    "plan",
    "release_memory",
    "tune",
    "wisdom",
]
