"""The words of the package's type hints."""

from typing import Any, Literal, Sequence, Tuple, TypeVar, Union

Array = TypeVar("Array")  # a NumPy array, PyTorch tensor, CuPy array or DLPack object; results are of the same kind
Other = Any  # an array on the same device, of any kind
Math = Literal["fp32", "exact", "match"]
Ints = Union[int, Sequence[int]]  # one for both directions, or (height, width)
Padding = Union[int, Sequence[int], Literal["same", "valid"]]  # or (top, bottom, left, right)
Shape = Tuple[int, ...]  # of an array: (N, C, H, W) and the like
