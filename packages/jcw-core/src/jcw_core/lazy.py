"""Names at the door of a package that are imported when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package whose import has to stay cheap.

    They know ``__version__``, too.

    Args:
        package: its name; that of its distribution has hyphens for underscores.
        homes: the module in which each name is defined.

    Returns:
        a function of a name, which raises ``AttributeError`` for what is neither in ``homes`` nor the version; and one
        that lists all names.
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

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes, "__version__"})

    return find, names
