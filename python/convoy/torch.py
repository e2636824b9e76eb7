"""PyTorch: a differentiable operator, a Conv2d layer, and a function that swaps layers in a model.

The forward pass is Convoy's. Gradients are PyTorch's own convolutions for now (aten::convolution_backward), in the precision that
PyTorch is set to. The operator torch.ops.convoy.conv2d has fake-tensor and autograd registrations, so it works under
torch.compile, in CUDA graphs (warm the shape up once before capture: the first call of a shape plans), and under autocast, where
it stays FP32.
"""

from __future__ import annotations

from typing import Any, List, Optional

import torch

from . import _conv
from ._arguments import geometry
from ._types import Ints, Math, Padding

__all__ = ["Conv2d", "conv2d", "patch"]


@torch.library.custom_op("convoy::conv2d", mutates_args=())
def _op(x: torch.Tensor, w: torch.Tensor, bias: Optional[torch.Tensor], stride: List[int], padding: List[int], dilation: List[int],
        groups: int, math: str, rtol: Optional[float], atol: Optional[float], engine: Optional[str],
        workspace_limit: Optional[int]) -> torch.Tensor:
    return _conv.on_arrays(x, w, bias, tuple(stride), tuple(padding), tuple(dilation), groups, math, rtol, atol, None, engine, workspace_limit)


@_op.register_fake
def _fake(x, w, bias, stride, padding, dilation, groups, math, rtol, atol, engine, workspace_limit):
    t, b, left, r = padding
    p = (x.shape[2] + t + b - dilation[0] * (w.shape[2] - 1) - 1) // stride[0] + 1
    q = (x.shape[3] + left + r - dilation[1] * (w.shape[3] - 1) - 1) // stride[1] + 1
    return x.new_empty((x.shape[0], w.shape[0], p, q))


def _setup(ctx, inputs, output):
    x, w, bias, stride, padding, dilation, groups = inputs[:7]
    ctx.save_for_backward(x, w)
    ctx.bias_shape = None if bias is None else list(bias.shape)
    ctx.geometry = (stride, padding, dilation, groups)


def _backward(ctx, dy):
    x, w = ctx.saved_tensors
    stride, (t, b, left, r), dilation, groups = ctx.geometry
    need = [ctx.needs_input_grad[0], ctx.needs_input_grad[1], ctx.bias_shape is not None and ctx.needs_input_grad[2]]
    symmetric = t == b and left == r
    # aten knows symmetric padding only: pad by hand and cut the gradient of x back.
    xp = x if symmetric else torch.nn.functional.pad(x, (left, r, t, b))
    dx, dw, db = torch.ops.aten.convolution_backward(dy.contiguous(), xp, w, ctx.bias_shape, stride, [t, left] if symmetric else [0, 0], dilation,
                                                     False, [0, 0], groups, need)
    if dx is not None and not symmetric:
        dx = dx[:, :, t:t + x.shape[2], left:left + x.shape[3]]
    return (dx, dw, db) + (None,) * 9


_op.register_autograd(_backward, setup_context=_setup)


def conv2d(x: torch.Tensor, w: torch.Tensor, bias: Optional[torch.Tensor] = None, *, stride: Ints = 1,
           padding: Padding = 0, dilation: Ints = 1, groups: int = 1,
           math: Math = "fp32", rtol: Optional[float] = None, atol: Optional[float] = None, engine: Optional[str] = None,
           workspace_limit: Optional[int] = None) -> torch.Tensor:
    """convoy.conv2d for PyTorch tensors with gradients. Under autocast, half-precision inputs are taken back to FP32."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x is a {type(x).__name__}: expected a PyTorch tensor (convoy.conv2d takes other arrays)")
    if x.device.type in ("cpu", "cuda") and torch.is_autocast_enabled(x.device.type):
        x, w = x.float(), w.float()
        bias = None if bias is None else bias.float()
        with torch.autocast(x.device.type, enabled=False):
            return conv2d(x, w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups, math=math, rtol=rtol, atol=atol,
                          engine=engine, workspace_limit=workspace_limit)
    if _conv.is_plain(torch, x, w, bias):
        return _conv.on_arrays(x, w, bias, stride, padding, dilation, groups, math, rtol, atol, None, engine, workspace_limit)
    if x.dim() == 2 and w.dim() == 2:
        return conv2d(x[None, None], w[None, None], bias, stride=stride, padding=padding, dilation=dilation, groups=groups, math=math, rtol=rtol,
                      atol=atol, engine=engine, workspace_limit=workspace_limit)[0, 0]
    if x.dim() == 3:
        return conv2d(x.unsqueeze(0), w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups, math=math, rtol=rtol,
                      atol=atol, engine=engine, workspace_limit=workspace_limit).squeeze(0)
    if w.dim() != 4:
        raise ValueError(f"w has shape {tuple(w.shape)}: expected 4 dimensions (K, C/G, R, S)")
    stride, padding, dilation = geometry(tuple(w.shape[2:]), stride, padding, dilation)
    return torch.ops.convoy.conv2d(x, w, bias, list(stride), list(padding), list(dilation), groups, math, rtol, atol, engine, workspace_limit)


class Conv2d(torch.nn.Conv2d):
    """torch.nn.Conv2d computed by Convoy; state dicts are interchangeable.

    math, rtol, atol and engine are convoy.conv2d's. Padding modes other than zeros are padded by PyTorch first.
    """

    def __init__(self, *args: Any, math: Math = "fp32", rtol: Optional[float] = None, atol: Optional[float] = None, engine: Optional[str] = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.math, self.rtol, self.atol, self.engine = math, rtol, atol, engine

    @classmethod
    def like(cls, layer: torch.nn.Conv2d, **options: Any) -> Conv2d:
        """A Conv2d that shares layer's parameters and settings."""
        new = cls.__new__(cls)
        torch.nn.Module.__init__(new)
        new.__dict__.update({k: v for k, v in layer.__dict__.items()})
        new.math, new.rtol, new.atol, new.engine = (options.get(k, d) for k, d in (("math", "fp32"), ("rtol", None), ("atol", None), ("engine", None)))
        return new

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            input = torch.nn.functional.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return conv2d(input, weight, bias, stride=self.stride, padding=padding, dilation=self.dilation, groups=self.groups, math=self.math,
                      rtol=self.rtol, atol=self.atol, engine=self.engine)


def _why_not(layer, min_kernel):
    if type(layer) is not torch.nn.Conv2d:
        return f"it is a {type(layer).__name__}, a class of its own"
    if max(layer.kernel_size) < min_kernel:
        return f"its kernel {layer.kernel_size[0]}x{layer.kernel_size[1]} is smaller than {min_kernel}"
    if layer.weight.dtype != torch.float32:
        return f"its weight is {layer.weight.dtype}, not float32"
    if layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks:
        return "it has hooks"
    return None


def patch(model: torch.nn.Module, min_kernel: int = 7, *, math: Math = "fp32", rtol: Optional[float] = None, atol: Optional[float] = None,
          engine: Optional[str] = None, verbose: bool = True) -> List[str]:
    """Swaps the model's nn.Conv2d layers with a kernel of min_kernel or more (on either side) for convoy.torch.Conv2d.

    Parameters are shared, so optimisers and state dicts go on working. Prints what was swapped, and why the other convolutions
    were not, unless verbose is False. Returns the list of swapped names.
    """
    swapped = []
    for name, layer in list(model.named_modules()):
        if not isinstance(layer, torch.nn.Conv2d) or isinstance(layer, Conv2d):
            continue
        reason = "it is the whole model" if not name else _why_not(layer, min_kernel)
        if reason is None:
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], Conv2d.like(layer, math=math, rtol=rtol, atol=atol, engine=engine))
            swapped.append(name)
        if verbose:
            print(f"{name or type(model).__name__}: " + ("swapped" if reason is None else f"kept, because {reason}"))
    return swapped
