"""Names beside the points of a plot, where they cover neither each other nor another point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from jcw_core.report.svg import Frame, text_width

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, pixels."""

_RADIUS = 5
"""Pixels around a point that stay free of names."""

_HEIGHT = 12


def names(
    entries: Sequence[tuple[float, float, str]], points: Sequence[tuple[float, float]], frame: Frame
) -> str:
    """Texts beside points; one that fits on no side is left out, as its point has a tooltip.

    Args:
        entries: x, y and the name, in data units; earlier ones choose first.
        points: all points that no name may cover, in data units.
        frame: the axes.
    """
    taken = [_around(frame.x(x), frame.y(y)) for x, y in points]
    parts = []
    for x, y, name in entries:
        for box in _places(frame.x(x), frame.y(y), text_width(name)):
            if _inside(box, frame) and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                parts.append(
                    f'<text class="name" x="{box[0]:.1f}" y="{box[3] - 3:.1f}">{escape(name)}</text>'
                )
                break
    return "".join(parts)


def _places(x: float, y: float, width: float) -> Iterator[Box]:
    """Right of a point, left, above and below it, then its corners."""
    gap = _RADIUS + 2
    right, left, middle = x + gap, x - gap - width, x - width / 2
    level, above, below = y - _HEIGHT / 2, y - gap - _HEIGHT, y + gap
    for at, top in (
        (right, level), (left, level), (middle, above), (middle, below),
        (right, above), (right, below), (left, above), (left, below),
    ):  # fmt: skip
        yield at, top, at + width, top + _HEIGHT


def _around(x: float, y: float) -> Box:
    return x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS


def _inside(box: Box, frame: Frame) -> bool:
    return box[0] >= frame.left and box[1] >= frame.top and box[2] <= frame.right and box[3] <= frame.bottom


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
