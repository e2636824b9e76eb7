"""Arrays of any kind as (address, shape, strides in elements), and new ones of the same kind.

Kinds are told apart without importing a package that the caller has not imported: a torch.Tensor can only exist when
torch is in sys.modules.
"""

import functools
import sys

import numpy as np

from ._memory import LEAST_RESULT, numpy_result, torch_result, workspace

_FLOAT32 = np.dtype(np.float32)
_CPU = ("cpu", 0)


@functools.lru_cache(4096)
def packed(shape):
    """Strides in elements of a packed array."""
    steps, step = [0] * len(shape), 1
    for i in range(len(shape) - 1, -1, -1):
        steps[i] = step
        step *= max(shape[i], 1)
    return tuple(steps)


class View:
    """What the library needs of an array. keep holds whatever owns the memory."""

    __slots__ = ("address", "shape", "stride", "device", "kind", "keep")

    def __init__(self, address, shape, stride, device, kind, keep):
        self.address, self.shape, self.stride = address, shape, stride
        self.device, self.kind, self.keep = device, kind, keep


def _wrong_dtype(name, dtype, fix):
    return TypeError(f"{name} is {dtype}: expected float32 (convert it with {fix})")


def _numpy(name, a):
    if a.dtype is not _FLOAT32:
        if a.dtype != np.float32:
            raise _wrong_dtype(name, a.dtype, "astype(numpy.float32)")
        if not a.dtype.isnative:
            raise _wrong_dtype(name, f"float32 of the other byte order ({a.dtype.str})", "astype(numpy.float32)")
    address = a.__array_interface__["data"][0]
    if a.flags.c_contiguous and not address & 3:
        return View(address, a.shape, packed(a.shape), _CPU, "numpy", a)
    if address & 3 or any(s & 3 for s in a.strides):
        a = np.require(a.copy(), requirements="CA")  # steps or an address that are not whole floats
        address = a.__array_interface__["data"][0]
    return View(address, a.shape, tuple(s >> 2 for s in a.strides), _CPU, "numpy", a)


def _torch(name, t):
    torch = sys.modules["torch"]
    if t.dtype is not torch.float32:
        raise _wrong_dtype(name, t.dtype, ".float()")
    if t.layout is not torch.strided:
        raise TypeError(f"{name} has layout {t.layout}: expected a dense tensor (.to_dense())")
    if t.is_cpu:
        device = _CPU
    elif t.is_cuda:
        device = ("cuda", t.device.index or 0)
    else:
        raise TypeError(f"{name} is on {t.device}: expected cpu or cuda")
    if t.is_neg():
        t = t.resolve_neg()
    return View(t.data_ptr(), tuple(t.shape), t.stride(), device, "torch", t)


def _cuda_interface(name, a):
    d = a.__cuda_array_interface__
    if d["typestr"] not in ("<f4", "=f4"):
        raise _wrong_dtype(name, d["typestr"], "astype(float32)")
    shape = tuple(d["shape"])
    steps = d.get("strides")
    if steps is None:
        steps, step = [0] * len(shape), 4
        for i in range(len(shape) - 1, -1, -1):
            steps[i], step = step, step * max(shape[i], 1)
    index = getattr(getattr(a, "device", None), "id", 0)
    return View(d["data"][0], shape, tuple(s // 4 for s in steps), ("cuda", index), "cupy", a)


def view(name, a):
    """A View of an array, tensor or DLPack object; a TypeError naming it otherwise."""
    if isinstance(a, np.ndarray):
        if type(a) is not np.ndarray and np.ma.is_masked(a):
            raise TypeError(f"{name} has masked elements, which a convolution has no rule for: expected a plain array (a.filled(0))")
        return _numpy(name, a)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        return _torch(name, a)
    if hasattr(a, "__cuda_array_interface__"):
        return _cuda_interface(name, a)
    if hasattr(a, "__dlpack__"):
        kind = int(a.__dlpack_device__()[0])
        if kind in (1, 3, 11):  # host memory, plain or pinned
            return _numpy(name, np.from_dlpack(a))
        if kind in (2, 13) and torch is not None:
            return _torch(name, torch.from_dlpack(a))
        raise TypeError(f"{name} is a DLPack object on device type {kind}: expected host memory, or CUDA with torch or cupy imported")
    raise TypeError(f"{name} is a {type(a).__name__}: expected a NumPy array, a PyTorch tensor or a DLPack object")


def empty_like_kind(v, shape, nbytes):
    """A fresh packed float32 array of nbytes of v's kind on v's device, and its address."""
    kept = nbytes >= LEAST_RESULT and v.device is _CPU
    if v.kind == "numpy":
        a = numpy_result(shape, nbytes) if kept else np.empty(shape, np.float32)
        return a, a.__array_interface__["data"][0]
    if v.kind == "torch":
        t = torch_result(sys.modules["torch"], shape, nbytes) if kept else v.keep.new_empty(shape)
        return t, t.data_ptr()
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(v.device[1]):
        a = cupy.empty(shape, cupy.float32)
    return a, a.data.ptr


def stream_of(v):
    """The CUDA stream that work on v belongs to, as an address; None on the CPU."""
    if v.device[0] == "cpu":
        return None
    if v.kind == "torch":
        return sys.modules["torch"]._C._cuda_getCurrentRawStream(v.device[1])  # the address alone, without an object around it
    return sys.modules["cupy"].cuda.get_current_stream().ptr


def scratch(v, nbytes):
    """(address, owner) of nbytes of workspace on v's device: torch's or CuPy's allocator on a GPU, the thread's block on the host."""
    if v.device[0] == "cpu":
        return workspace(nbytes)
    if v.kind == "torch":
        torch = sys.modules["torch"]
        block = torch.empty(nbytes, dtype=torch.uint8, device=v.keep.device)
        return block.data_ptr(), block
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(v.device[1]):
        block = cupy.empty(nbytes, cupy.uint8)
    return block.data.ptr, block
