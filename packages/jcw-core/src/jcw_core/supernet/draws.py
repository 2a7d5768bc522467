"""Which sub-networks the steps of a supernet's training draw, so that they fit the search that follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jcw_core.space.space import Population, SearchSpace
from jcw_core.supernet.options import RANDOM_OF_SANDWICH


@dataclass(frozen=True)
class Draws:
    """Sub-networks by epoch and step.

    Args:
        space: the search space.
        variant: what the search varies: ``"channels"`` widths at density 1, ``"weights"`` densities at
            full width, ``"sequential"`` first the one and then the other; any other name both at once.
        rule: ``"plain"`` draws one sub-network per step; ``"sandwich"`` the largest, the smallest and
            two at random.
        channel_epochs: first epochs in which nothing is pruned but channels.
        population: values (n, dimensions) to draw from in place of the space; they fit the variant already.
    """

    space: SearchSpace
    variant: str = "joint"
    rule: Literal["plain", "sandwich"] = "plain"
    channel_epochs: int = 0
    population: Population | None = None

    def steps(self, epoch: int, steps: int, rng: np.random.Generator) -> Iterator[Population]:
        """The values of each step of an epoch, (1, dimensions) or for a sandwich (4, dimensions), the largest first."""
        count = RANDOM_OF_SANDWICH if self.rule == "sandwich" else 1
        free = self._free(steps, rng)
        if epoch < self.channel_epochs:
            free = free & self._is_width
        rows = self._rows(steps * count, rng).reshape(steps, count, -1)
        if self.rule == "sandwich":
            ends = np.broadcast_to(np.stack([self.space.maximum, self._smallest]), (steps, 2, rows.shape[2]))
            rows = np.concatenate([ends, rows], axis=1)
        return iter(np.where(free[:, None], rows, self.space.maximum))

    @property
    def _is_width(self) -> NDArray[np.bool_]:
        return np.array([v.kind == "width" for v in self.space.variables], dtype=bool)

    @property
    def _smallest(self) -> NDArray[np.float64]:
        smallest: NDArray[np.float64] = self.space.decode(self.space.encode(self.space.low[None]))[0]
        return smallest

    def _free(self, steps: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """(steps, dimensions) True for what varies; the rest is as in the whole network."""
        widths, everything = self._is_width, np.ones((steps, self.space.dimensions), dtype=bool)
        if self.population is not None:
            return everything
        if self.variant == "sequential":
            # Its first half varies widths alone, its second half the densities of what that has found.
            return everything & (widths | (rng.random((steps, 1)) < 0.5))
        return everything & {"channels": widths, "weights": ~widths}.get(self.variant, True)

    def _rows(self, count: int, rng: np.random.Generator) -> Population:
        if self.population is None:
            return self.space.sample(count, rng)
        return self.population[rng.integers(len(self.population), size=count)]
