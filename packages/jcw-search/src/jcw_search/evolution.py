"""The paper's JCW algorithm (its algorithm 4): parents breed, and a strategy chooses who of parents and children lives on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from jcw_core.errors import PluginError
from jcw_core.protocols import Selection
from jcw_core.space.space import Population
from jcw_search.generations import Generations
from jcw_search.mating import breed, scatter
from jcw_search.operators import Variation
from jcw_search.pareto import Floats, Indices
from jcw_search.selection import UniformSelection
from jcw_search.state import State


@dataclass(frozen=True, kw_only=True, repr=False)
class Evolution(Generations):
    """The paper's search, ready to begin; see ``Generations`` for what all searches have.

    Args:
        selection: the strategy that chooses survivors.
        variation: crossover and mutation.
    """

    algorithm: ClassVar[str] = "plain"

    selection: Selection = field(default_factory=UniformSelection)
    variation: Variation = field(default_factory=Variation)

    @property
    def strategy(self) -> str:
        """The selection's name."""
        return self.selection.name

    def children(self, state: State, index: int, rng: np.random.Generator) -> Population:
        """Breed the population, or draw at random where a phase begins with parents that are all alike."""
        phase, parents = self.phases[index], state.values[state.population]
        if index and state.generation == self.phases[index - 1].last:
            return scatter(self.space, parents, state.known, self.population, phase, self.allowed, rng)
        return breed(
            self.space, parents, state.known, self.population, phase, self.variation, self.allowed, rng
        )

    def survivors(self, state: State, pool: Indices, index: int, rng: np.random.Generator) -> Indices:
        """Ask the strategy."""
        objectives, limits = state.objectives[pool], self.window(state, index)
        return pool[self._select(objectives, limits, rng)]

    def _select(self, objectives: Floats, limits: Floats, rng: np.random.Generator) -> Indices:
        size = min(self.population, len(objectives))
        chosen = np.asarray(self.selection.select(objectives, size, rng, limits=limits))
        if (
            not np.issubdtype(chosen.dtype, np.integer)
            or len(set(chosen.tolist())) != size
            or chosen.shape != (size,)
            or not ((chosen >= 0) & (chosen < len(objectives))).all()
        ):
            raise PluginError(
                f"selection strategy {self.selection.name!r} gave {chosen.dtype} {chosen.shape}, expected "
                f"{size} different indices below {len(objectives)}"
            )
        return chosen.astype(np.intp)
