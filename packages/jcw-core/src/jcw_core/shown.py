"""How values are shown in one line: what ``repr`` and notebooks print of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from html import escape
from typing import Any

from jcw_core.names import printable

_ROWS_SHOWN = 30


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


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min 5 s``, ``2 h 7 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def roughly(seconds: float) -> str:
    """``40 s``, ``4 min``, ``3 h``, ``5 days``."""
    for limit, unit, size in ((90, "s", 1), (5400, "min", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{max(1, round(seconds / size))} {unit}"
    return f"{seconds / 86_400:.0f} days"


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def html_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A small table for notebooks, of the first rows where there are many; every text is escaped.

    Args:
        title: one line that stands above it.
        heads: of the columns.
        rows: of as many cells each.
    """
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows[:_ROWS_SHOWN])
    more = len(rows) - _ROWS_SHOWN
    rest = f"<p>and {more:,} more</p>" if more > 0 else ""
    head = f"<thead><tr>{_cells('th', heads)}</tr></thead>"
    return f"<p>{escape(title)}</p><table>{head}<tbody>{body}</tbody></table>{rest}"


def _cells(tag: str, row: Sequence[object]) -> str:
    return "".join(f"<{tag}>{escape(printable(str(cell)))}</{tag}>" for cell in row)
