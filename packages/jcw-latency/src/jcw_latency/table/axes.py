"""The axes along which a layer's latency varies, and where a space's variables move along them.

An ungrouped convolution or a linear layer has input channels, output channels and, where it may be
pruned, density; a depthwise convolution fused into it is as wide as its output. Everything else
that channel pruning touches (grouped convolutions, pooling, element-wise) has one channel axis. An axis that
nothing may cut is no axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.channel_groups import Segment, couple
from jcw_core.network.graph import Network
from jcw_core.network.layers import FusedLayer, fuse
from jcw_core.network.operations import LAYERS
from jcw_core.network.problem import LayerProblem
from jcw_core.space.space import SearchSpace, is_prunable

IN, OUT, CHANNELS, DENSITY = "in", "out", "channels", "density"
AXES = (IN, OUT, CHANNELS, DENSITY)


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A position along one axis as a function of a population: constant + sum of factor * column.

    Args:
        constant: what does not vary.
        terms: (column of the population, factor).
        stride: all positions of the space are multiples of it; 0 for a density.
    """

    constant: float
    terms: tuple[tuple[int, int], ...] = ()
    stride: int = 0

    def of(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Positions for columns (dimensions, n), (n,)."""
        total = np.full(columns.shape[1], self.constant)
        for column, factor in self.terms:
            total += factor * columns[column]
        return total


def has_channel_pair(problem: LayerProblem) -> bool:
    """True when input and output channels are separate axes."""
    return problem.op in LAYERS and problem.groups == 1


def step_along(problem: LayerProblem, axis: str, step: int) -> int:
    """Channels between two positions on an axis: ``step``, and whole groups of a grouped convolution."""
    return (
        lcm(step, problem.in_channels // problem.groups) if axis == CHANNELS and problem.groups > 1 else step
    )


def full_size(problem: LayerProblem, axis: str) -> float:
    """The end of an axis in the layer at full width and density."""
    if axis == DENSITY:
        return 1.0
    return problem.out_channels if axis == OUT else problem.in_channels


def layer_at(problem: LayerProblem, position: Mapping[str, float]) -> LayerProblem:
    """The layer at a position on its axes; axes left out stay as they are.

    Args:
        problem: at full width.
        position: channels or density by axis name; channels above 0.
    """
    density = float(position.get(DENSITY, problem.density))
    if has_channel_pair(problem):
        width_in, width_out = position.get(IN, problem.in_channels), position.get(OUT, problem.out_channels)
        width = int(width_out)
        then = problem.then and replace(problem.then, in_channels=width, out_channels=width, groups=width)
        return replace(problem, in_channels=int(width_in), out_channels=width, density=density, then=then)
    if CHANNELS not in position:
        return replace(problem, density=density)
    width = int(position[CHANNELS])
    follows = problem.op == "flatten" or problem.groups > 1
    features = problem.out_channels // problem.in_channels if follows else 1
    groups = problem.groups * width // problem.in_channels if problem.groups > 1 else 1
    return replace(problem, in_channels=width, out_channels=width * features, groups=groups, density=density)


def layer_axes(network: Network, layer: FusedLayer, problem: LayerProblem) -> tuple[str, ...]:
    """Names of the axes along which the latency of a layer varies."""
    layout, groups = couple(network).layout, couple(network).groups

    def varies(segments: Sequence[Segment]) -> bool:
        return any(not groups[s.group].fixed and groups[s.group].channels > 1 for s in segments)

    if not has_channel_pair(problem):
        return (CHANNELS,) if varies(_input_layout(network, layer)) else ()
    axes = [IN] * varies(layout[layer.inputs[0]]) + [OUT] * varies(layout[layer.output])
    return (*axes, DENSITY) if is_prunable(network, layer.node) else tuple(axes)


def _input_layout(network: Network, layer: FusedLayer) -> tuple[Segment, ...]:
    """The axis that a problem's ``in_channels`` counts: all inputs of a concat, else the first."""
    layout = couple(network).layout
    return layout[layer.name if layer.node.op == "concat" else layer.inputs[0]]


def layer_coordinates(space: SearchSpace) -> dict[str, dict[str, Coordinate]]:
    """Where a population lies on every axis of every layer of a network, by layer and axis name."""
    columns = {(v.kind, v.name): index for index, v in enumerate(space.variables)}
    layout = couple(space.network).layout
    found = {}
    for layer in fuse(space.network):
        density = columns.get(("density", layer.name))
        found[layer.name] = {
            IN: _channels(space, layout[layer.inputs[0]]),
            OUT: _channels(space, layout[layer.output]),
            CHANNELS: _channels(space, _input_layout(space.network, layer)),
            DENSITY: Coordinate(1.0) if density is None else Coordinate(0.0, ((density, 1),)),
        }
    return found


def _channels(space: SearchSpace, segments: Sequence[Segment]) -> Coordinate:
    groups = couple(space.network).groups
    columns = {v.name: index for index, v in enumerate(space.variables) if v.kind == "width"}
    constant, factors, strides = 0, dict[int, int](), list[int]()
    for segment in segments:
        column = columns.get(segment.group)
        if column is None:
            constant += groups[segment.group].channels * segment.repeat
            continue
        variable = space.variables[column]
        factors[column] = factors.get(column, 0) + segment.repeat
        strides += [int(v) * segment.repeat for v in (variable.step, variable.low, variable.high)]
    stride = reduce(gcd, strides, constant)
    return Coordinate(float(constant), tuple(sorted(factors.items())), max(stride, 1))
