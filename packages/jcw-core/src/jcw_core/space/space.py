"""The search space: one width per channel group, one density per prunable layer.

A population is a float64 array (architectures, dimensions) of *values*: channels for widths, shares
for densities, widths first. ``encode`` maps values to the unit cube in which crossover and mutation
work, and ``decode`` maps any point of the cube to the nearest values (appendix A).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import ArchitectureError
from jcw_core.network.architecture import Architecture
from jcw_core.network.channel_groups import ChannelGroup, couple
from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import LAYERS
from jcw_core.network.weight_groups import GROUP_SIZE
from jcw_core.space.bounds import Bound, BoundError, bound_of, check_bounds
from jcw_core.space.whole import why_unpruned

Population = NDArray[np.float64]

DENSITY_STEP = 0.01

_WHOLE = 1 / 4
"""Share of random architectures with all channels, and of those with all weights."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One dimension of the space; ``low <= value <= high <= maximum``, in steps of ``step``."""

    kind: Literal["width", "density"]
    name: str
    low: float
    high: float
    maximum: float
    step: float


def prunable_layers(network: Network) -> tuple[str, ...]:
    """Layers whose weights may be pruned: linear ones and ungrouped convolutions but the first and transposed ones."""
    return tuple(node.name for node in network if is_prunable(network, node))


def is_prunable(network: Network, node: Node) -> bool:
    """True for a layer whose weights may be pruned."""
    return node.op in LAYERS and not why_unpruned(network, node)


@dataclass(frozen=True)
class SearchSpace:
    """All the architectures that a search may visit.

    Args:
        network: the network at full width.
        variables: the dimensions, widths first.
    """

    network: Network
    variables: tuple[Variable, ...]

    def __repr__(self) -> str:
        widths = sum(v.kind == "width" for v in self.variables)
        return (
            f"<SearchSpace of {self.network.name!r}: {widths} widths, {self.dimensions - widths} densities>"
        )

    @classmethod
    def of(
        cls,
        network: Network,
        bounds: Sequence[Bound] = (),
        *,
        defaults: Sequence[Bound] = (),
        step: int = GROUP_SIZE,
    ) -> SearchSpace:
        """Build the space of a network.

        Args:
            network: the network at full width.
            bounds: the first whose pattern matches a layer holds for it. A group takes the gentlest
                bound of its layers.
            defaults: a backbone's bounds, for layers that ``bounds`` leaves out; unlike those they
                may match nothing, and are raised to one step of channels where a network is narrow.
                Without either, a group keeps at least one step and a layer a tenth of its weights.
            step: widths are multiples of this many channels, and of those that grouped convolutions take together.

        Raises:
            BoundError: one of ``bounds`` matches no layer, allows less than one step, or allows less of
                layers that all stay whole.
        """
        check_bounds(network, bounds, step)
        steps = {group: lcm(step, group.step) for group in couple(network).groups.values()}
        widths = [
            _width_variable(group, bounds, defaults, own)
            for group, own in steps.items()
            if not group.fixed and group.channels > own
        ]
        densities = [_density_variable(layer, (*bounds, *defaults)) for layer in prunable_layers(network)]
        return cls(network, (*widths, *densities))

    @cached_property
    def _columns(self) -> dict[tuple[str, str], int]:
        return {(v.kind, v.name): index for index, v in enumerate(self.variables)}

    @property
    def dimensions(self) -> int:
        """Number of variables."""
        return len(self.variables)

    @cached_property
    def low(self) -> NDArray[np.float64]:
        """Lowest value of each variable, (dimensions,)."""
        return np.array([v.low for v in self.variables])

    @cached_property
    def high(self) -> NDArray[np.float64]:
        """Highest value of each variable, (dimensions,)."""
        return np.array([v.high for v in self.variables])

    @cached_property
    def maximum(self) -> NDArray[np.float64]:
        """Value of each variable in the whole network, (dimensions,)."""
        return np.array([v.maximum for v in self.variables])

    @cached_property
    def step(self) -> NDArray[np.float64]:
        """Distance between neighbouring values of each variable, (dimensions,)."""
        return np.array([v.step for v in self.variables])

    def encode(self, values: Population) -> Population:
        """Values (n, dimensions) to features in [0, 1]: channels over their maximum, densities."""
        return values / self.maximum

    def decode(self, features: Population) -> Population:
        """Features (n, dimensions) to the nearest values within the bounds."""
        wanted = np.clip(features, 0, 1) * self.maximum
        # Rounded once more so that equal densities are equal floats.
        values = np.clip(np.round(np.rint(wanted / self.step) * self.step, 9), self.low, self.high)
        # The bounds need not be multiples of the step: 10 channels in steps of 4 are 4, 8 and 10.
        for bound in (self.low, self.high):
            values = np.where(np.abs(bound - wanted) <= np.abs(values - wanted), bound, values)
        return values

    @cached_property
    def is_width(self) -> NDArray[np.bool_]:
        """True for widths, False for densities, (dimensions,)."""
        return np.array([v.kind == "width" for v in self.variables], dtype=bool)

    def sample(
        self, size: int, rng: np.random.Generator, free: NDArray[np.bool_] | None = None
    ) -> Population:
        """Random values (size, dimensions) that range from small to large networks.

        Each architecture draws a level for its widths and another for its densities, and its variables
        scatter around them: independent draws alone would give every architecture about the same
        latency, one level for both would never give wide and sparse ones. A quarter keeps all
        channels, and a quarter all weights of the channels it keeps.

        Args:
            size: how many.
            rng: the only source of randomness.
            free: (dimensions,) True for what varies; the rest is kept whole. All by default.
        """
        free = np.ones(self.dimensions, dtype=bool) if free is None else free
        level = rng.uniform(size=(size, 2))
        scatter = rng.uniform(-0.4, 0.4, size=(size, self.dimensions))
        position = np.clip(np.where(self.is_width, level[:, :1], level[:, 1:]) + scatter, 0, 1)
        whole = rng.uniform(size=(size, 2)) < _WHOLE
        if (free & self.is_width).any() and (free & ~self.is_width).any():
            position[np.where(self.is_width, whole[:, :1], whole[:, 1:])] = 1
        position[:, ~free] = 1
        return self.decode(self.encode(self.low + position * (self.high - self.low)))

    def channels(self, values: Population, node: str) -> NDArray[np.float64]:
        """Channels (or features) of ``node``'s output in each architecture, (n,)."""
        coupling = couple(self.network)
        total = np.zeros(len(values))
        for segment in coupling.layout[node]:
            column = self._columns.get(("width", segment.group))
            width = coupling.groups[segment.group].channels if column is None else values[:, column]
            total += width * segment.repeat
        return total

    def density(self, values: Population, layer: str) -> NDArray[np.float64]:
        """Density of ``layer`` in each architecture, (n,); 1 for layers that are not pruned."""
        column = self._columns.get(("density", layer))
        return np.ones(len(values)) if column is None else values[:, column]

    def architecture(self, row: NDArray[np.float64]) -> Architecture:
        """One row of a population, by name."""
        pairs = list(zip(self.variables, row, strict=True))
        return Architecture(
            {v.name: int(value) for v, value in pairs if v.kind == "width"},
            {v.name: float(value) for v, value in pairs if v.kind == "density"},
        )

    def row(self, architecture: Architecture) -> NDArray[np.float64]:
        """The inverse of ``architecture``; groups and layers that it leaves out are whole.

        Raises:
            ArchitectureError: a name the space does not know, or a value outside the network.
        """
        row = self.maximum.copy()
        for kind, named in (("width", architecture.widths), ("density", architecture.densities)):
            for name, value in named.items():
                column = self._columns.get((kind, name))
                if column is None:
                    known = ", ".join(v.name for v in self.variables if v.kind == kind) or "none"
                    raise ArchitectureError(
                        f"{self.network.name} has no {kind} named {name!r}; there is: {known}"
                    )
                # In Python's own numbers, as a width may be an integer that no array holds.
                most = self.variables[column].maximum
                if value > most:
                    raise ArchitectureError(
                        f"{kind} of {name!r} is {value!r:.20}, more than the network's {most:g}"
                    )
                step = couple(self.network).groups[name].step if kind == "width" else 1
                if kind == "width" and value % step:
                    raise ArchitectureError(
                        f"width of {name!r} is {value!r:.20}; grouped convolutions read it, so it is a multiple of {step}"
                    )
                row[column] = value
        return row


def _width_variable(
    group: ChannelGroup, bounds: Sequence[Bound], defaults: Sequence[Bound], step: int
) -> Variable:
    wanted = float(step)
    for layer in group.layers:
        if (own := bound_of(layer, bounds)) is not None:
            if own.width * group.channels < step:
                raise BoundError(
                    own,
                    "width",
                    f"width = {own.width:g} of group {group.name!r} is {own.width * group.channels:g} of "
                    f"{group.channels} channels, below one group of {step}; give at least "
                    f"{step / group.channels:g}",
                )
            wanted = max(wanted, own.width * group.channels)
        elif (default := bound_of(layer, defaults)) is not None:
            wanted = max(wanted, default.width * group.channels)
    low = min(float(np.ceil(wanted / step - 1e-9) * step), float(group.channels))
    return Variable("width", group.name, low, float(group.channels), float(group.channels), float(step))


def _density_variable(layer: str, bounds: Sequence[Bound]) -> Variable:
    bound = bound_of(layer, bounds)
    low = 0.1 if bound is None else max(DENSITY_STEP, bound.density)
    return Variable("density", layer, low, 1.0, 1.0, DENSITY_STEP)
