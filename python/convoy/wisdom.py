"""Wisdom files: what the tuner measured, kept between runs."""

from __future__ import annotations

import ctypes as ct
import os
from typing import List, Optional, Tuple, Union

from . import _lib, _plan
from ._plan import use_wisdom as use  # noqa: F401  (convoy.wisdom.use(path))


def _file(path):
    path = path or _plan.wisdom_path()
    if path is None:
        raise ValueError("path is None and no wisdom file is in use: expected a path, convoy.wisdom.use(path) or CONVOY_WISDOM")
    return _lib.text("path", path)


Path = Union[str, os.PathLike]


def show(path: Optional[Path] = None) -> List[Tuple[str, str, str]]:
    """Every entry of a file (by default the one in use) as (machine, key, value) texts."""
    entries = []

    def each(_, *texts):
        entries.append(tuple(t.decode("utf-8", "replace") for t in texts))

    fn = _lib.Callback(_lib.WISDOM_FN, each)
    with fn:
        status = _lib.lib.convoy_wisdom_each(_file(path), fn.c, None, ct.byref(ct.c_int()))
    _lib.check(status)
    return entries


def merge(into: Path, source: Path) -> None:
    """Adds source's entries to into's; of two for one problem the quicker stays."""
    _lib.check(_lib.lib.convoy_wisdom_merge(_lib.text("into", into), _lib.text("source", source)))


def clear(path: Optional[Path] = None) -> None:
    """Removes the entries of a file, by default of the one in use."""
    _lib.check(_lib.lib.convoy_wisdom_clear(_file(path)))
