"""``merge`` and ``compare``: several tables joined into one, or two held against each other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jcw_core.errors import FormatError
from jcw_latency.table.end_to_end import EndToEndFit
from jcw_latency.table.table import LatencyTable, LayerGrid


@dataclass(frozen=True, slots=True)
class LayerChange:
    """One layer in two tables.

    Args:
        label: the layer in a few words.
        first_ms, second_ms: at full width and density.
        ratio: median over the grid of second over first; the grids have the same points.
        lowest, highest: of the ratios.
        noise: median over the grid of the interquartile range over the median, of the noisier table.
    """

    label: str
    first_ms: float
    second_ms: float
    ratio: float
    lowest: float
    highest: float
    noise: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two tables held against each other.

    Args:
        changes: of the layers that could be compared.
        other_points: layers that both tables have, but on grids of other points or axes.
        in_one_only: layers that one table alone has.
    """

    changes: tuple[LayerChange, ...]
    other_points: int
    in_one_only: int

    @property
    def left_out(self) -> str:
        """How many layers could not be compared, and why; empty if all could."""
        reasons = {
            "on grids of other points, which adaptive profiles choose anew": self.other_points,
            "in one of the tables only": self.in_one_only,
        }
        return " and ".join(f"{count} {reason}" for reason, count in reasons.items() if count)


def merge(tables: Sequence[LatencyTable]) -> LatencyTable:
    """One table for the networks of several, which share the layers that they have in common.

    A layer that is in two tables is taken from the first, unless the other one has all its axes and more. Where
    either has an axis that the other lacks, both are kept.

    Raises:
        DeviceError: the tables are of different devices.
        FormatError: one name stands for two networks.
    """
    first = tables[0]
    grids: dict[object, list[LayerGrid]] = {}
    fits: dict[str, EndToEndFit] = {}
    for table in tables:
        first.require(table.device)
        fits = {**table.end_to_end, **fits}
        for grid in table.grids:
            known = grids.setdefault(_layer(grid), [])
            if not any(g.axes.keys() >= grid.axes.keys() for g in known):
                known[:] = [*(g for g in known if not grid.axes.keys() >= g.axes.keys()), grid]
    networks = tuple(dict.fromkeys(n for table in tables for n in table.networks))
    names = [n.name for n in networks]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FormatError(
            f"two tables hold different networks named {twice[0]!r}; rename one and profile it again"
        )
    settings = {"merged": [dict(table.settings) for table in tables]}
    return LatencyTable(
        first.device, networks, tuple(itertools.chain.from_iterable(grids.values())), fits, settings
    )


def compare(first: LatencyTable, second: LatencyTable) -> Comparison:
    """Hold the layers that two tables have in common, on the same points, against each other.

    Raises:
        FormatError: there are none.
    """
    pairs = [(one, other) for one in first.grids for other in second.grids if _grid(one) == _grid(other)]
    ours, theirs = ({_layer(g) for g in table.grids} for table in (first, second))
    compared = {_layer(one) for one, _ in pairs}
    found = Comparison(
        tuple(_change(one, other) for one, other in pairs),
        other_points=len((ours & theirs) - compared),
        in_one_only=len(ours ^ theirs),
    )
    if not pairs:
        raise FormatError(
            f"the tables have no layer on the same grid in common ({found.left_out or 'they have no layers'}); "
            "profile the same network on full grids"
        )
    return found


def _layer(grid: LayerGrid) -> tuple[object, ...]:
    return grid.problem, grid.layers


def _grid(grid: LayerGrid) -> tuple[object, ...]:
    return *_layer(grid), tuple(grid.axes.items())


def _change(one: LayerGrid, other: LayerGrid) -> LayerChange:
    timed = (one.ms > 0) & (other.ms > 0)
    ratios = other.ms[timed] / one.ms[timed] if timed.any() else np.ones(1)
    return LayerChange(
        one.label,
        float(one.ms.flat[-1]),
        float(other.ms.flat[-1]),
        float(np.median(ratios)),
        float(ratios.min()),
        float(ratios.max()),
        max(noise(one), noise(other)),
    )


def noise(grid: LayerGrid) -> float:
    """Median over the timed points of interquartile range over median."""
    timed = grid.ms > 0
    return float(np.median(grid.spread_ms[timed] / grid.ms[timed])) if timed.any() else 0.0
