"""Plots as inline SVG: no scripts, no fonts, no files beside the page.

Marks carry a ``<title>``, which browsers show as a tooltip. Colours come from the page's style
sheet (classes ``s0`` to ``s6``), so a page decides how its plots look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np

from jcw_core.report.labels import names
from jcw_core.report.svg import COLOURS, Frame, Legend, drawing, shortened, span, text_width

_INDENT = 62
"""Where legends begin, pixels."""

_LIMIT = 3
"""Index of the colour of limits."""

_HIGHEST = 1e300
"""Points at or beyond it are left out: the ends of an axis must be numbers, too."""

STYLE = """
.drawing { display: inline-block; max-width: 100%; overflow-x: auto; vertical-align: top; }
svg.chart { font: 12px system-ui, sans-serif; max-width: 100%; height: auto; display: block; }
@media screen and (max-width: 600px) { svg.chart { min-width: 560px; } }
svg.chart text { fill: currentColor; } svg.chart .grid { stroke: currentColor; opacity: .15; }
svg.chart .axis { stroke: currentColor; opacity: .6; }
svg.chart .line { fill: none; stroke-width: 1.8; } svg.chart .dot { stroke: none; opacity: .85; }
svg.chart .guide { stroke: currentColor; stroke-dasharray: 4 4; opacity: .5; fill: none; }
svg.chart .value { font-size: 10px; font-variant-numeric: tabular-nums; }
svg.chart .name { paint-order: stroke; stroke: var(--page, Canvas); stroke-width: 3px; }
svg.chart .limit { stroke: #c11574; stroke-dasharray: 3 4; fill: none; }
svg.chart .s0 { --c: #2563eb; } svg.chart .s1 { --c: #dc6803; } svg.chart .s2 { --c: #0e9384; }
svg.chart .s3 { --c: #c11574; } svg.chart .s4 { --c: #6938ef; } svg.chart .s5 { --c: #667085; }
svg.chart .s6 { --c: #4d7c0f; } svg.chart .dashed { stroke-dasharray: 5 4; }
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
        names: what stands beside each point; nothing by default.
        dashed: how a line is drawn.
    """

    label: str
    points: Sequence[tuple[float, float]]
    kind: Literal["points", "line", "both"] = "points"
    titles: Sequence[str] = ()
    colour: int | None = None
    names: Sequence[str] = ()
    dashed: bool = False


def plot(
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    width: int = 640,
    height: int = 360,
    diagonal: bool = False,
    from_zero: bool = False,
    limits: tuple[str, Sequence[float]] = ("", ()),
) -> str:
    """Points and lines over two linear axes.

    Args:
        series: drawn in order.
        diagonal: draw the line where y equals x.
        from_zero: let both axes begin at zero.
        limits: name in the legend and values of x, each a dashed line from bottom to top.
    """
    points = [p for s in series for p in s.points if all(map(_can_be_drawn, p))]
    if not points:
        return "<p>No data.</p>"
    bounds = [x for x in limits[1] if _can_be_drawn(x)]
    entries = list(dict.fromkeys((s.label, _colour(s, i)) for i, s in enumerate(series)))
    legend = Legend(entries + [(limits[0], _LIMIT)] * bool(bounds), _INDENT, width)
    corners = points + [(x, points[0][1]) for x in bounds]
    if from_zero:  # what is largest does not touch the edge
        corners.append((1.02 * max(0.0, *(x for x, _ in corners)), 1.02 * max(0.0, *(y for _, y in corners))))
    frame = Frame.around(corners, width, height, from_zero=from_zero, square=diagonal, head=legend.height)
    body = [frame.axes(x_label, y_label), legend.draw()]
    if diagonal:
        low, high = frame.x_ticks[0], frame.x_ticks[-1]
        body.append(f'<path class="guide" d="M{frame.at(low, low)} L{frame.at(high, high)}"/>')
    body += [
        f'<path class="limit" d="M{frame.x(x):.1f} {frame.top} V{frame.bottom}"><title>{escape(limits[0])}: {x:.4g}</title></path>'
        for x in bounds
    ]
    body += [_marks(one, frame, _colour(one, index)) for index, one in enumerate(series)]
    body.append(
        names(
            _named(series),
            [p for s in series if s.kind != "line" for p in s.points if all(map(_can_be_drawn, p))],
            frame,
        )
    )
    return drawing(body, width, height, f"{y_label} against {x_label}")


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
    edges = np.histogram_bin_edges(values, bins=bins, range=span(values))
    counts = [np.histogram(sample, edges)[0] for sample in samples.values()]
    corners = [(float(edges[0]), 0.0), (float(edges[-1]), float(max(c.max() for c in counts)))]
    legend = Legend([(label, index) for index, label in enumerate(samples)], _INDENT, width)
    frame = Frame.around(corners, width, height, head=legend.height)
    body = [frame.axes(x_label, "architectures"), legend.draw()]
    for index, count in enumerate(counts):
        for low, high, height_ in zip(edges, edges[1:], count, strict=False):
            share = (high - low) / len(counts)
            left, right = low + index * share, low + (index + 1) * share
            body.append(frame.bar(float(left), float(right), float(height_), index))
    return drawing(body, width, height, f"histogram of {x_label}")


def bars(
    labels: Sequence[str],
    rows: Mapping[str, Sequence[float]],
    *,
    words: Mapping[str, Sequence[str]] | None = None,
    title: str = "shares kept, by layer",
    width: int = 640,
    row_height: int = 11,
) -> str:
    """Horizontal bars for shares between 0 and 1: one line per label, one bar per row.

    Args:
        labels: of the lines.
        rows: shares by name of the row, one for each label.
        words: what stands behind each bar; by default nothing does, and tooltips say percent.
        title: what the chart shows, for those who do not see it.
        width: pixels.
        row_height: likewise.
    """
    shown = [shortened(label, width / 2) for label in labels]
    left = 12 + max(map(text_width, shown), default=0)
    right = 12 + max((text_width(word) for row in (words or {}).values() for word in row), default=0)
    scale, block = width - left - right, row_height * len(rows) + 5
    legend = Legend([(name, order) for order, name in enumerate(rows)], left, width)
    body = [legend.draw()]
    for index, (label, short) in enumerate(zip(labels, shown, strict=True)):
        y = legend.height + 8 + index * block
        body.append(
            f'<text x="{left - 6:.0f}" y="{y + block / 2 + 2:.0f}" text-anchor="end">{escape(short)}'
            f"<title>{escape(label)}</title></text>"
        )
        for order, (name, shares) in enumerate(rows.items()):
            share, top = shares[index], y + order * row_height
            said = f"{share:.0%}" if words is None else words[name][index]
            body.append(
                f'<rect class="back" x="{left:.0f}" y="{top}" width="{scale:.0f}" height="{row_height - 1}"/>'
                f'<rect class="bar s{order % COLOURS}" x="{left:.0f}" y="{top}" width="{scale * share:.1f}" '
                f'height="{row_height - 1}"><title>{escape(label)}: {escape(name)} {escape(said)}</title></rect>'
            )
            if words is not None:
                body.append(
                    f'<text class="value" x="{width - 6}" y="{top + row_height - 2}" text-anchor="end">{escape(said)}</text>'
                )
    return drawing(body, width, legend.height + 12 + block * len(labels), title)


def _can_be_drawn(value: float) -> bool:
    """False for what is not finite or too large for an axis."""
    return abs(value) < _HIGHEST


def _colour(series: Series, index: int) -> int:
    return index if series.colour is None else series.colour


def _named(series: Sequence[Series]) -> list[tuple[float, float, str]]:
    """Points that have a name, and can be drawn."""
    pairs = (pair for s in series for pair in zip(s.points, s.names, strict=False))
    return [(*point, name) for point, name in pairs if all(map(_can_be_drawn, point))]


def _marks(series: Series, frame: Frame, colour: int) -> str:
    parts = []
    finite = [(i, p) for i, p in enumerate(series.points) if all(map(_can_be_drawn, p))]
    if series.kind != "points" and len(finite) > 1:
        path = " L".join(frame.at(*p) for _, p in finite)
        dashed = " dashed" if series.dashed else ""
        parts.append(f'<path class="line s{colour % COLOURS}{dashed}" d="M{path}"/>')
    if series.kind != "line":
        for index, (x, y) in finite:
            title = series.titles[index] if series.titles else f"{series.label}: {x:.4g}, {y:.4g}"
            parts.append(
                f'<circle class="dot s{colour % COLOURS}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="4">'
                f"<title>{escape(title)}</title></circle>"
            )
    return "".join(parts)
