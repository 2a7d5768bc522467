"""A selection strategy that keeps the fastest, and an objective that can be had without training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jcw_core.hookspecs import hookimpl
from jcw_core.protocols import Run
from jcw_core.space import Population, SearchSpace


class Fastest:
    """Registered as ``fastest``."""

    name = "fastest"

    def select(
        self,
        objectives: NDArray[np.float64],
        size: int,
        rng: np.random.Generator,
        *,
        limits: NDArray[np.float64],
    ) -> NDArray[np.intp]:
        """Indices of the ``size`` rows with the lowest latency; ties in random order."""
        ties = rng.permutation(len(objectives))
        return np.lexsort((ties, objectives[:, 0]))[:size]


class Pruned:
    """Registered as ``pruned``: the mean share that is cut away, over all variables."""

    name = "pruned"
    unit = ""
    needs: tuple[str, ...] = ()

    def open(self, run: Run) -> Pruned:
        """Nothing to load."""
        return self

    def begin_generation(self, population: Population, generation: int) -> bool:
        """Values hold for ever."""
        return False

    def evaluate(self, space: SearchSpace, population: Population) -> NDArray[np.float64]:
        """One value per architecture, (n,)."""
        return 1 - space.encode(population).mean(axis=1)


@hookimpl
def jcw_register_selections() -> Sequence[Fastest]:
    """One strategy."""
    return [Fastest()]


@hookimpl
def jcw_register_objectives() -> Sequence[Pruned]:
    """One objective."""
    return [Pruned()]
