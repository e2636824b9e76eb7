"""Every public function says the types that it takes and gives, in hints that resolve, and what it does."""

import inspect
import typing

import pytest

import convoy


def _public(module):
    for name in getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")]):
        thing = getattr(module, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing) and not issubclass(thing, Exception):
            for method, f in vars(thing).items():
                if isinstance(f, property):
                    f = f.fget
                if (not method.startswith("_") or method == "__call__") and inspect.isfunction(f):
                    yield f"{name}.{method}", f


@pytest.mark.parametrize("name", ["convoy", "convoy.wisdom", "convoy.torch", "convoy.dask"])
def test_hints(name):
    module = pytest.importorskip(name)
    told = [(n, f) for n, f in _public(module) if f.__module__.startswith("convoy")]
    assert told
    for n, f in told:
        hints, arguments = typing.get_type_hints(f), inspect.signature(f).parameters
        missing = [a for a in list(arguments) + ["return"] if a not in hints and a != "self"]
        assert not missing, f"{n}: no hint for {', '.join(missing)}"
        assert f.__doc__, n


def test_marked_as_typed():
    from pathlib import Path

    assert Path(convoy.__file__).with_name("py.typed").exists()
