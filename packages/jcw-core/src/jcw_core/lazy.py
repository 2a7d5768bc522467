"""Names at the door of a package that are imported when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package whose import has to stay cheap; it also finds ``__version__``.

    Args:
        package: its name; that of its distribution has hyphens for underscores.
        homes: the module in which each name is defined.

    Returns:
        a function of a name. It raises ``AttributeError`` for what is neither in ``homes`` nor the version.
    """

    def find(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            value: object = version(package.replace("_", "-"))
        elif name in homes:
            value = getattr(import_module(homes[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return find
