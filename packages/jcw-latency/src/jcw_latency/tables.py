"""Several tables: joined into one, or held against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jcw_core.errors import FormatError
from jcw_latency.table import LatencyTable, LayerGrid
from jcw_latency.whole_run import WholeRun


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


def merge(tables: Sequence[LatencyTable]) -> LatencyTable:
    """One table for the networks of several, which share the layers that they have in common.

    A layer that is in two tables is taken from the one with more axes, else from the first.

    Raises:
        DeviceError: the tables are of different devices.
        FormatError: one name stands for two networks.
    """
    first = tables[0]
    grids: dict[object, LayerGrid] = {}
    whole: dict[str, WholeRun] = {}
    for table in tables:
        first.require(table.device)
        whole = {**table.whole, **whole}
        for grid in table.grids:
            known = grids.setdefault((grid.problem, grid.layers), grid)
            if len(grid.axes) > len(known.axes):
                grids[grid.problem, grid.layers] = grid
    networks = tuple(dict.fromkeys(n for table in tables for n in table.networks))
    names = [n.name for n in networks]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FormatError(
            f"two tables hold different networks named {twice[0]!r}; rename one and profile it again"
        )
    settings = {"merged": [dict(table.settings) for table in tables]}
    return LatencyTable(first.device, networks, tuple(grids.values()), whole, settings)


def compare(first: LatencyTable, second: LatencyTable) -> list[LayerChange]:
    """The layers that two tables have in common, on the same points.

    Raises:
        FormatError: there are none.
    """
    others = {(g.problem, g.layers): g for g in second.grids}
    pairs = [(g, others[g.problem, g.layers]) for g in first.grids if (g.problem, g.layers) in others]
    changes = [_change(one, other) for one, other in pairs if dict(one.axes) == dict(other.axes)]
    if not changes:
        raise FormatError("the tables have no layer on the same grid in common; profile the same network")
    return changes


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
