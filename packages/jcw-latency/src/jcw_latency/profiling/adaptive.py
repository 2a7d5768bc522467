"""Adaptive grids: points only where the latency is not as linear as the grid takes it to be."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.graph import Network
from jcw_core.network.problem import LayerProblem
from jcw_latency.profiling.grid import Axes, density_points, distinct_layers, width_points
from jcw_latency.table.axes import AXES, DENSITY, full_size, layer_at, step_along
from jcw_latency.table.interpolation import interpolate
from jcw_latency.table.table import LayerGrid

MOST_POINTS = 700
"""What a full grid has (section 2.5 of the paper): refining must not cost more."""
_WIDTHS = 8
"""Points along the one axis of a layer: hardly more than its coarse grid and probes would be."""
_LEAST_DENSITY_CELL = 0.1
"""A finer density axis than the paper's would follow noise."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A held-out point: the middle of one cell of one axis.

    Args:
        layer: the layer at full width.
        axis: along which the cell lies.
        middle: where a new grid point would go.
        position: of the probe, on all axes of the layer.
    """

    layer: LayerProblem
    axis: str
    middle: float
    position: Mapping[str, float]

    @property
    def problem(self) -> LayerProblem:
        """What has to be timed."""
        return layer_at(self.layer, self.position)


def coarse_axes(network: Network, step: int) -> dict[LayerProblem, Axes]:
    """The grids to begin with: half and full width, density 0, a half and 1; the full grid of a single axis."""

    def points(problem: LayerProblem, axis: str, widths: int) -> tuple[float, ...]:
        size = int(full_size(problem, axis))
        own = step_along(problem, axis, step)
        return density_points(2) if axis == DENSITY else width_points(size, widths, own)

    return {
        problem: {
            axis: points(problem, axis, 2 if len(names) > 1 else _WIDTHS) for axis in AXES if axis in names
        }
        for problem, names in distinct_layers(network).items()
    }


def probes(axes: Mapping[LayerProblem, Axes], step: int) -> list[Probe]:
    """The middle of every cell that can be split: with the other axes at the end, and in between."""
    found = []
    for layer, points in axes.items():
        if len(points) == 1:
            continue
        for axis, along in points.items():
            for low, high in itertools.pairwise(along):
                middle = _middle(axis, low, high, step_along(layer, axis, step))
                if middle is None:
                    continue
                ends = {other: values[-1] for other, values in points.items()}
                inner = {other: values[len(values) // 2] for other, values in points.items()}
                places = {tuple(sorted({**other, axis: middle}.items())) for other in (ends, inner)}
                found += [Probe(layer, axis, middle, dict(place)) for place in sorted(places)]
    return found


def _middle(axis: str, low: float, high: float, step: int) -> float | None:
    """Where to split a cell; None for one that is as small as it gets."""
    if axis == DENSITY:
        return (low + high) / 2 if high - low > 1.99 * _LEAST_DENSITY_CELL else None
    middle = float(np.floor((low + high) / 2 / step + 0.5) * step)
    return middle if low < middle < high else None


def refined(
    axes: Mapping[LayerProblem, Axes],
    grids: Sequence[LayerGrid],
    held_out: Sequence[Probe],
    measured_ms: NDArray[np.float64],
    allowed_ms: NDArray[np.float64],
) -> dict[LayerProblem, Axes]:
    """Split the worst cell of each axis of each layer, where it is off by more than is allowed.

    Args:
        axes: of the grids.
        grids: as measured.
        held_out: probes of the same axes.
        measured_ms: of each probe.
        allowed_ms: error that each probe may have.
    """
    by_layer = {grid.problem: grid for grid in grids}
    worst: dict[tuple[LayerProblem, str], tuple[float, float]] = {}
    for probe, ms, allowed in zip(held_out, measured_ms, allowed_ms, strict=True):
        error = abs(interpolate(by_layer[probe.layer], probe.position) - float(ms)) / float(allowed)
        key = (probe.layer, probe.axis)
        if error > max(1.0, worst.get(key, (1.0, 0.0))[0]):
            worst[key] = (error, probe.middle)
    better: dict[LayerProblem, Axes] = {}
    for layer, points in axes.items():
        grown = dict(points)
        for axis in sorted(points, key=lambda axis: -worst.get((layer, axis), (0.0, 0.0))[0]):
            if (layer, axis) in worst:
                wanted = {**grown, axis: tuple(sorted((*grown[axis], worst[layer, axis][1])))}
                if prod(map(len, wanted.values())) <= MOST_POINTS:
                    grown = wanted
        better[layer] = grown
    return better
