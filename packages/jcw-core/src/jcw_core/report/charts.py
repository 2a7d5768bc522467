"""Plots as inline SVG: no scripts, no fonts, no files beside the page.

Marks carry a ``<title>``, which browsers show as a tooltip. Colours come from the page's style
sheet (classes ``s0`` to ``s5``), so a page decides how its plots look.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np

_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 28, 46

_HIGHEST = 1e300
"""Points at or beyond it are left out: the ends of an axis must be numbers, too."""

STYLE = """
svg.chart { font: 12px system-ui, sans-serif; max-width: 100%; height: auto; }
svg.chart text { fill: currentColor; } svg.chart .grid { stroke: currentColor; opacity: .15; }
svg.chart .axis { stroke: currentColor; opacity: .6; }
svg.chart .line { fill: none; stroke-width: 1.8; } svg.chart .dot { stroke: none; opacity: .85; }
svg.chart .guide { stroke: currentColor; stroke-dasharray: 4 4; opacity: .5; fill: none; }
svg.chart .s0 { --c: #2563eb; } svg.chart .s1 { --c: #dc6803; } svg.chart .s2 { --c: #0e9384; }
svg.chart .s3 { --c: #c11574; } svg.chart .s4 { --c: #6938ef; } svg.chart .s5 { --c: #667085; }
svg.chart .dot, svg.chart .bar { fill: var(--c); } svg.chart .line { stroke: var(--c); }
svg.chart .bar { opacity: .75; } svg.chart .back { fill: currentColor; opacity: .08; }
"""
"""Style sheet that the plots need."""


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one colour.

    Args:
        label: its name in the legend.
        points: (x, y); those not finite, or from 1e300, are left out.
        kind: separate points, a line, or a line with its points.
        titles: tooltip of each point; x and y by default.
        colour: index of a colour; its place among the series by default.
    """

    label: str
    points: Sequence[tuple[float, float]]
    kind: Literal["points", "line", "both"] = "points"
    titles: Sequence[str] = ()
    colour: int | None = None


def plot(
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    width: int = 640,
    height: int = 360,
    diagonal: bool = False,
    from_zero: bool = False,
) -> str:
    """Points and lines over two linear axes.

    Args:
        series: drawn in order.
        diagonal: draw the line where y equals x.
        from_zero: let both axes begin at zero.
    """
    points = [p for s in series for p in s.points if all(map(_can_be_drawn, p))]
    if not points:
        return "<p>No data.</p>"
    frame = _Frame.around(points, width, height, from_zero=from_zero, square=diagonal)
    body = [frame.axes(x_label, y_label)]
    if diagonal:
        low, high = frame.x_ticks[0], frame.x_ticks[-1]
        body.append(f'<path class="guide" d="M{frame.at(low, low)} L{frame.at(high, high)}"/>')
    for index, one in enumerate(series):
        body.append(_marks(one, frame, index if one.colour is None else one.colour))
    body.append(_legend([(s.label, i if s.colour is None else s.colour) for i, s in enumerate(series)]))
    return _svg(body, width, height, f"{y_label} against {x_label}")


def histogram(
    samples: Mapping[str, Sequence[float]],
    *,
    x_label: str,
    bins: int = 24,
    width: int = 640,
    height: int = 260,
) -> str:
    """Histograms of one or more samples over common bins, side by side."""
    values = [v for sample in samples.values() for v in sample if _can_be_drawn(v)]
    if not values:
        return "<p>No data.</p>"
    edges = np.histogram_bin_edges(values, bins=bins, range=_span(values))
    counts = [np.histogram(sample, edges)[0] for sample in samples.values()]
    corners = [(float(edges[0]), 0.0), (float(edges[-1]), float(max(c.max() for c in counts)))]
    frame = _Frame.around(corners, width, height, from_zero=False, square=False)
    body = [frame.axes(x_label, "architectures")]
    for index, count in enumerate(counts):
        for low, high, height_ in zip(edges, edges[1:], count, strict=False):
            share = (high - low) / len(counts)
            left, right = low + index * share, low + (index + 1) * share
            body.append(frame.bar(float(left), float(right), float(height_), index))
    body.append(_legend([(label, index) for index, label in enumerate(samples)]))
    return _svg(body, width, height, f"histogram of {x_label}")


def bars(
    labels: Sequence[str], rows: Mapping[str, Sequence[float]], *, width: int = 640, row_height: int = 11
) -> str:
    """Horizontal bars for shares between 0 and 1: one line per label, one bar per row."""
    left = 8 + 6.4 * max((len(label) for label in labels), default=1)
    scale = width - left - 60
    block = row_height * len(rows) + 5
    body = []
    for index, label in enumerate(labels):
        y = 20 + index * block
        body.append(
            f'<text x="{left - 6:.0f}" y="{y + block / 2 + 2:.0f}" text-anchor="end">{escape(label)}</text>'
        )
        for order, (name, shares) in enumerate(rows.items()):
            share, top = shares[index], y + order * row_height
            body.append(
                f'<rect class="back" x="{left:.0f}" y="{top}" width="{scale:.0f}" height="{row_height - 1}"/>'
            )
            body.append(
                f'<rect class="bar s{order % 6}" x="{left:.0f}" y="{top}" width="{scale * share:.1f}" '
                f'height="{row_height - 1}"><title>{escape(label)}: {escape(name)} {share:.0%}</title></rect>'
            )
    body.append(_legend([(name, order) for order, name in enumerate(rows)], y=12))
    return _svg(body, width, 26 + block * len(labels), "shares kept, by layer")


@dataclass(frozen=True, slots=True)
class _Frame:
    """Axes: ticks in data units and the mapping to pixels."""

    x_ticks: Sequence[float]
    y_ticks: Sequence[float]
    width: int
    height: int

    @classmethod
    def around(
        cls, points: Sequence[tuple[float, float]], width: int, height: int, *, from_zero: bool, square: bool
    ) -> _Frame:
        xs, ys = ([p[axis] for p in points] for axis in (0, 1))
        if square:
            xs = ys = xs + ys
        extra = [0.0] if from_zero else []
        return cls(ticks(*_span(xs + extra)), ticks(*_span(ys + extra)), width, height)

    def x(self, value: float) -> float:
        low, high = self.x_ticks[0], self.x_ticks[-1]
        return _LEFT + (value - low) / (high - low) * (self.width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.height - _BOTTOM - (value - low) / (high - low) * (self.height - _TOP - _BOTTOM)

    def at(self, x: float, y: float) -> str:
        return f"{self.x(x):.1f} {self.y(y):.1f}"

    def bar(self, left: float, right: float, value: float, colour: int) -> str:
        x, y, base = self.x(left), self.y(value), self.y(self.y_ticks[0])
        return (
            f'<rect class="bar s{colour % 6}" x="{x:.1f}" y="{y:.1f}" width="{max(self.x(right) - x - 0.5, 0.5):.1f}" '
            f'height="{base - y:.1f}"><title>{left:.4g} to {right:.4g}: {value:g}</title></rect>'
        )

    def axes(self, x_label: str, y_label: str) -> str:
        bottom, right = self.height - _BOTTOM, self.width - _RIGHT
        parts = []
        for tick in self.x_ticks:
            x = self.x(tick)
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>')
            parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:.6g}</text>')
        for tick in self.y_ticks:
            y = self.y(tick)
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{tick:.6g}</text>')
        parts.append(f'<path class="axis" fill="none" d="M{_LEFT} {_TOP} V{bottom} H{right}"/>')
        parts.append(
            f'<text x="{(_LEFT + right) / 2:.0f}" y="{self.height - 10}" text-anchor="middle">{escape(x_label)}</text>'
        )
        middle = (_TOP + bottom) / 2
        parts.append(
            f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'
        )
        return "".join(parts)


def _can_be_drawn(value: float) -> bool:
    """False for what is not finite or too large for an axis."""
    return abs(value) < _HIGHEST


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-3):
        margin = abs(low) * 0.1 if abs(low) > 1e-9 else 1.0
        return low - margin, high + margin
    return low, high


def ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round numbers from at most ``low`` to at least ``high``, about ``count`` of them."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _marks(series: Series, frame: _Frame, colour: int) -> str:
    parts = []
    finite = [(i, p) for i, p in enumerate(series.points) if all(map(_can_be_drawn, p))]
    if series.kind != "points" and len(finite) > 1:
        path = " L".join(frame.at(*p) for _, p in finite)
        parts.append(f'<path class="line s{colour % 6}" d="M{path}"/>')
    if series.kind != "line":
        for index, (x, y) in finite:
            title = series.titles[index] if series.titles else f"{series.label}: {x:.4g}, {y:.4g}"
            parts.append(
                f'<circle class="dot s{colour % 6}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="4">'
                f"<title>{escape(title)}</title></circle>"
            )
    return "".join(parts)


def _legend(entries: Sequence[tuple[str, int]], y: int = _TOP - 12) -> str:
    parts, x = [], float(_LEFT)
    for label, colour in entries:
        parts.append(f'<rect class="bar s{colour % 6}" x="{x:.0f}" y="{y - 8}" width="9" height="9"/>')
        parts.append(f'<text x="{x + 13:.0f}" y="{y}">{escape(label)}</text>')
        x += 30 + 6.5 * len(label)
    return "".join(parts)


def _svg(body: Sequence[str], width: int, height: int, label: str) -> str:
    return (
        f'<svg class="chart" role="img" aria-label="{escape(label)}" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">{"".join(body)}</svg>'
    )
