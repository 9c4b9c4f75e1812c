"""Load the modules of a package when they are first named: a verb loads only what it calls."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType


def submodules(package: str) -> Callable[[str], ModuleType]:
    """Return the `__getattr__` of a package (PEP 562), which imports the module of that name."""

    def load(name: str) -> ModuleType:
        try:
            return import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    return load
