"""Which points a grid has: the layer problems to time for a network, each distinct one once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.problem import LayerProblem
from jcw_core.network.weight_groups import kept_groups, weight_groups
from jcw_core.space.space import DENSITY_STEP
from jcw_latency.profiling.samples import Samples
from jcw_latency.table.axes import AXES, DENSITY, full_size, layer_at, layer_axes, step_along
from jcw_latency.table.table import LayerGrid

Placement = Literal["even", "midpoint"]
Axes = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class PlannedLayer:
    """One distinct layer and where each point of its grid is found among the problems to time.

    Args:
        problem: at full width and density 1.
        axes: positions by axis name, as in ``LayerGrid``.
        index: into the plan's problems, in the shape of the grid; -1 at width 0.
    """

    problem: LayerProblem
    axes: dict[str, tuple[float, ...]]
    index: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that has to be timed.

    Args:
        problems: each once.
        layers: the grids that are made of them.
        probes: where each further problem that was asked for is among ``problems``.
    """

    problems: tuple[LayerProblem, ...]
    layers: tuple[PlannedLayer, ...]
    probes: tuple[int, ...] = ()


def make_plan(
    network: Network, *, widths: int, densities: int, step: int, placement: Placement = "even"
) -> Plan:
    """Grids of N widths and densities k/M for every distinct layer of a network.

    Args:
        network: at full width.
        widths: N; channels are rounded to whole steps, so narrow layers have fewer points.
        densities: M.
        step: channels in one step.
        placement: of the widths, see ``width_points``.
    """

    def points(problem: LayerProblem, axis: str) -> tuple[float, ...]:
        if axis == DENSITY:
            return density_points(densities)
        own = step_along(problem, axis, step)
        return width_points(int(full_size(problem, axis)), widths, own, placement)

    return plan_of(
        {
            problem: {axis: points(problem, axis) for axis in AXES if axis in names}
            for problem, names in distinct_layers(network).items()
        }
    )


def distinct_layers(network: Network) -> dict[LayerProblem, set[str]]:
    """Every distinct layer at full width, and the axes along which some layer of this problem varies."""
    axes_of: dict[LayerProblem, set[str]] = {}
    for layer in fuse(network):
        problem = problem_of(network, layer)
        axes_of.setdefault(problem, set()).update(layer_axes(network, layer, problem))
    return axes_of


def plan_of(axes: Mapping[LayerProblem, Axes], probes: Sequence[LayerProblem] = ()) -> Plan:
    """The plan for given grids, and for single problems beside them."""
    problems = _Distinct()
    layers = tuple(_layer(problem, dict(points), problems) for problem, points in axes.items())
    found = tuple(problems.place(probe) for probe in probes)
    return Plan(tuple(problems.members), layers, found)


def measured_grids(plan: Plan, samples: Samples) -> tuple[LayerGrid, ...]:
    """The plan's grids, with the medians of what was timed."""
    low, median, high = samples.quantiles() * 1e3
    return tuple(_measured_grid(layer, median, high - low, samples.counts) for layer in plan.layers)


def _measured_grid(
    layer: PlannedLayer, ms: NDArray[np.float64], spread: NDArray[np.float64], rounds: NDArray[np.int32]
) -> LayerGrid:
    def placed(values: NDArray[np.floating] | NDArray[np.int32]) -> NDArray[np.float64]:
        return np.where(layer.index >= 0, values[layer.index], 0)

    return LayerGrid(layer.problem, layer.axes, placed(ms), placed(spread), placed(rounds).astype(np.int32))


class _Distinct:
    """Problems that differ in what a device runs; the first of those that do not stands for all."""

    def __init__(self) -> None:
        self.members: list[LayerProblem] = []
        self._index: dict[LayerProblem, int] = {}

    def place(self, problem: LayerProblem) -> int:
        """Index of a problem among ``members``."""
        key = _rounded(problem)
        if key not in self._index:
            self._index[key] = len(self.members)
            self.members.append(problem)
        return self._index[key]


def _layer(problem: LayerProblem, axes: dict[str, tuple[float, ...]], problems: _Distinct) -> PlannedLayer:
    places = [_place(problem, axes, corner, problems) for corner in itertools.product(*axes.values())]
    return PlannedLayer(
        problem, axes, np.array(places, dtype=np.intp).reshape(tuple(map(len, axes.values())))
    )


def _place(
    problem: LayerProblem,
    axes: dict[str, tuple[float, ...]],
    corner: Sequence[float],
    problems: _Distinct,
) -> int:
    position = dict(zip(axes, corner, strict=True))
    if any(value == 0 for axis, value in position.items() if axis != DENSITY):
        return -1
    return problems.place(layer_at(problem, position))


def _rounded(problem: LayerProblem) -> LayerProblem:
    """The same problem for all densities that keep the same number of weight groups."""
    taps = problem.kernel_size[0] * problem.kernel_size[1]
    groups = weight_groups(problem.out_channels) * problem.in_channels * taps
    if groups >= 1 / DENSITY_STEP:
        return problem
    return replace(problem, density=kept_groups(problem.density, groups) / groups)


def width_points(channels: int, count: int, step: int, placement: Placement = "even") -> tuple[float, ...]:
    """0 and ``count`` widths up to ``channels``, in whole steps, each once.

    Args:
        channels: full width.
        count: N.
        step: channels in one step.
        placement: ``"even"`` is i/N as in the paper; ``"midpoint"`` is (i - 1/2)/N and the full width,
            which halves the lowest cell. Latency does not go to 0 with the width, so that is where
            the interpolation is worst.
    """
    wanted = (np.arange(1, count + 1) - (0.5 if placement == "midpoint" else 0.0)) * channels / count
    rounded = np.maximum(np.floor(wanted / step + 0.5), 1) * step
    return (0.0, *sorted({min(float(w), float(channels)) for w in (*rounded[:-1], channels)}))


def density_points(count: int) -> tuple[float, ...]:
    """0 to 1 in ``count`` steps; density 0 is the cost of moving the data alone."""
    return tuple(k / count for k in range(count + 1))
