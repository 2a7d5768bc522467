"""How values are shown in one line: what ``repr`` and notebooks print of them."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any


def call_of(value: Any) -> str:
    """A dataclass as the call that makes it: required fields by position, others by name unless at their default."""
    parts = []
    for one in fields(value):
        found, default = getattr(value, one.name), _default(one)
        if default is MISSING:
            parts.append(repr(found))
        elif found != default:
            parts.append(f"{one.name}={found!r}")
    return f"{type(value).__name__}({', '.join(parts)})"


def count_of(number: int, unit: str) -> str:
    """``1 model``, ``2 models``."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default
