"""The parts of a plot: how wide its texts are, ticks, axes, legends."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

COLOURS = 7
"""In the style sheet, ``s0`` to ``s6``."""

LINE = 16
"""Height of a line of text, pixels; its letters are 12 pixels high."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 28, 46
"""Room around the area of a plot, pixels: the least, to which long labels add."""


def text_width(text: str) -> float:
    """Pixels that a text takes at most, in any usual font without serifs at 12 pixels.

    A page without scripts cannot ask; too little cuts a label off.
    """
    return sum(map(_letter_width, text))


def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    if letter in "mwMW%@" or not letter.isascii():
        return 13.0
    return 5.5 if letter in "fijlrtI.,:;'|!()[]/- " else 10.0 if letter.isupper() else 7.9


def shortened(text: str, width: float) -> str:
    """``text`` in at most so many pixels: what is too much is left out at its beginning."""
    if text_width(text) <= width:
        return text
    kept = ""
    while len(kept) < len(text) and text_width("…" + text[-len(kept) - 1 :]) <= width:
        kept = text[-len(kept) - 1 :]
    return "…" + kept


def ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round numbers from at most ``low`` to at least ``high``, about ``count`` of them."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def span(values: Sequence[float]) -> tuple[float, float]:
    """The least and the largest, moved apart where they are the same."""
    low, high = min(values), max(values)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-3):
        margin = abs(low) * 0.1 if abs(low) > 1e-9 else 1.0
        return low - margin, high + margin
    return low, high


@dataclass(frozen=True)
class Legend:
    """Names of what is drawn, in as many lines as they take.

    Args:
        entries: name and index of a colour.
        left, width: where lines begin and end, pixels.
    """

    entries: Sequence[tuple[str, int]]
    left: float
    width: float

    @cached_property
    def places(self) -> list[tuple[float, int]]:
        """Where each entry begins, and in which line it stands."""
        found: list[tuple[float, int]] = []
        x, line = self.left, 0
        for label, _ in self.entries:
            needed = 13 + text_width(label)
            if x > self.left and x + needed > self.width:
                x, line = self.left, line + 1
            found.append((x, line))
            x += needed + 14
        return found

    @property
    def height(self) -> int:
        """Pixels of all its lines."""
        return LINE * (1 + max((line for _, line in self.places), default=0))

    def draw(self) -> str:
        """Its marks and names, from the top of the plot."""
        parts = []
        for (label, colour), (x, line) in zip(self.entries, self.places, strict=True):
            y, text = LINE * (line + 1), shortened(label, self.width - x - 13)
            parts.append(
                f'<rect class="bar s{colour % COLOURS}" x="{x:.0f}" y="{y - 8}" width="9" height="9"/>'
            )
            parts.append(f'<text x="{x + 13:.0f}" y="{y}">{escape(text)}</text>')
        return "".join(parts)


@dataclass(frozen=True)
class Frame:
    """Axes: ticks in data units and the mapping to pixels.

    Args:
        x_ticks, y_ticks: rising.
        width, height: of the whole plot, pixels.
        head: pixels above it for a legend.
    """

    x_ticks: Sequence[float]
    y_ticks: Sequence[float]
    width: int
    height: int
    head: int = LINE

    @classmethod
    def around(
        cls,
        points: Sequence[tuple[float, float]],
        width: int,
        height: int,
        *,
        from_zero: bool = False,
        square: bool = False,
        head: int = LINE,
    ) -> Frame:
        """Axes for points: from 0 if that is asked for, and both the same if they are to be ``square``."""
        xs, ys = ([p[axis] for p in points] for axis in (0, 1))
        if square:
            xs = ys = xs + ys
        extra = [0.0] if from_zero else []
        return cls(ticks(*span(xs + extra)), ticks(*span(ys + extra)), width, height, head)

    @cached_property
    def left(self) -> float:
        """Where the area begins, behind the labels of the vertical axis and its ticks."""
        return max(_LEFT, LINE + 12 + max(text_width(f"{tick:.6g}") for tick in self.y_ticks))

    @cached_property
    def right(self) -> float:
        """Where the area ends, so that the last tick's label has room."""
        return self.width - max(_RIGHT, text_width(f"{self.x_ticks[-1]:.6g}") / 2)

    @property
    def top(self) -> float:
        """Where the area begins, below the legend."""
        return _TOP + self.head - LINE

    @property
    def bottom(self) -> float:
        """Where the area ends, above the labels of the horizontal axis."""
        return self.height - _BOTTOM

    def x(self, value: float) -> float:
        """Pixels from the left."""
        low, high = self.x_ticks[0], self.x_ticks[-1]
        return self.left + (value - low) / (high - low) * (self.right - self.left)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.bottom - (value - low) / (high - low) * (self.bottom - self.top)

    def at(self, x: float, y: float) -> str:
        """A point of a path."""
        return f"{self.x(x):.1f} {self.y(y):.1f}"

    def bar(self, left: float, right: float, value: float, colour: int) -> str:
        """A bar from the horizontal axis up."""
        x, y, base = self.x(left), self.y(value), self.y(self.y_ticks[0])
        return (
            f'<rect class="bar s{colour % COLOURS}" x="{x:.1f}" y="{y:.1f}" width="{max(self.x(right) - x - 0.5, 0.5):.1f}" '
            f'height="{base - y:.1f}"><title>{left:.4g} to {right:.4g}: {value:g}</title></rect>'
        )

    def axes(self, x_label: str, y_label: str) -> str:
        """Lines, ticks and the labels of both axes."""
        top, bottom, left, right = self.top, self.bottom, self.left, self.right
        parts = []
        for tick in self.x_ticks:
            x = self.x(tick)
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
            parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:.6g}</text>')
        for tick in self.y_ticks:
            y = self.y(tick)
            parts.append(f'<line class="grid" x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{left - 7:.1f}" y="{y + 4:.1f}" text-anchor="end">{tick:.6g}</text>')
        parts.append(f'<path class="axis" fill="none" d="M{left:.1f} {top} V{bottom} H{right:.1f}"/>')
        below = shortened(x_label, self.width - 2 * max(left, self.width - right))
        beside = shortened(y_label, bottom - top)
        parts.append(
            f'<text x="{(left + right) / 2:.0f}" y="{self.height - 10}" text-anchor="middle">{escape(below)}</text>'
            f'<text transform="translate(14 {(top + bottom) / 2:.0f}) rotate(-90)" text-anchor="middle">'
            f"{escape(beside)}</text>"
        )
        return "".join(parts)


def drawing(body: Sequence[str], width: int, height: int, label: str) -> str:
    """The ``<svg>`` element around what was drawn, in one that scrolls where the window is narrow."""
    return (
        f'<span class="drawing"><svg class="chart" role="img" aria-label="{escape(label)}" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">{"".join(body)}</svg></span>'
    )
