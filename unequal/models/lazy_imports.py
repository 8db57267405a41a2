"""Import one network out of a large library without all the others.

The packages of diffusers and torchvision import every network that they hold as soon as one of them is needed, and a
compiler that only compiled networks need: seconds at the start of each stage, and of each of its processes.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class Deferred(ModuleType):
    """A package whose `__init__` runs when something is asked of the package itself, and not for its modules' sake."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def defer(package: str) -> None:
    """Have a package's `__init__` run when it is needed, unless it has run already."""
    if package in sys.modules:
        return
    spec = find_spec(package)
    assert spec is not None
    module = Deferred(package)
    module.__spec__, module.__path__ = spec, list(spec.submodule_search_locations or ())
    sys.modules[package] = module
    parent, _, name = package.rpartition(".")
    if parent:
        setattr(sys.modules[parent], name, module)


@contextmanager
def without(module: str) -> Iterator[None]:
    """Within the block a module counts as missing, for whoever can do without it; not if it has been imported."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]
