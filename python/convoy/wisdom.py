"""Wisdom files: what the tuner measured, kept between runs."""

import ctypes as ct
import os

from . import _lib
from ._plan import use_wisdom as use  # noqa: F401  (convoy.wisdom.use(path))


def show(path):
    """Every entry of a file as (machine, key, value) texts."""
    entries = []
    fn = _lib.WISDOM_FN(lambda _, machine, key, value: entries.append((machine.decode(), key.decode(), value.decode())))
    _lib.check(_lib.lib.convoy_wisdom_each(os.fspath(path).encode(), fn, None, ct.byref(ct.c_int())))
    return entries


def merge(into, source):
    """Adds source's entries to into's; of two for one problem the quicker stays."""
    _lib.check(_lib.lib.convoy_wisdom_merge(os.fspath(into).encode(), os.fspath(source).encode()))


def clear(path):
    """Removes the entries of a file."""
    _lib.check(_lib.lib.convoy_wisdom_clear(os.fspath(path).encode()))
