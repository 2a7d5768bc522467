"""A search that learns: a model of each dear objective, refitted in every generation, ranks the proposals.

As in NSGANetV2 (Lu et al. 2020) and MSuNAS (Lu et al. 2020), but with latency in place of the crowding
distance: it is known exactly, so its whole range is sliced, and each slice has its best.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from jcw_core.space.space import Population
from jcw_search.assisted.landscape import Landscape
from jcw_search.assisted.niches import Niches
from jcw_search.assisted.proposals import Proposals
from jcw_search.generations import Generations
from jcw_search.mating import filled, scatter
from jcw_search.pareto import Floats, Indices, non_dominated
from jcw_search.state import State


@dataclass(frozen=True, kw_only=True, repr=False)
class AssistedSearch(Generations):
    """The search by models, ready to begin; see ``Generations`` for what all searches have."""

    algorithm: ClassVar[str] = "assisted"

    generations: int = 12
    _memory: dict[int, Landscape] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def strategy(self) -> str:
        """Of this search itself; survivors are the best of each slice of latency."""
        return "assisted"

    def children(self, state: State, index: int, rng: np.random.Generator) -> Population:
        """The architectures that the models think best, or random ones where a phase begins."""
        phase, parents = self.phases[index], state.values[state.population]
        if index and state.generation == self.phases[index - 1].last:
            return scatter(self.space, parents, state.known, self.population, phase, self.allowed, rng)
        proposals = Proposals(
            self.space, phase, self.allowed, self.landscape(state).values, self.window(state, index)
        )
        begin = state.values[state.current & phase.reaches(state.values)]
        found = proposals.best(begin, state.known, self.population, rng)
        return filled(self.space, found, parents, state.known, self.population, phase, self.allowed, rng)

    def survivors(self, state: State, pool: Indices, index: int, rng: np.random.Generator) -> Indices:
        """The best of each slice by the models' means, of all whose values still hold."""
        rows = np.flatnonzero(state.current & self.phases[index].reaches(state.values))
        smoothed = self.landscape(state).smoothed(state.values, state.objectives)[rows]
        return rows[Niches.of(self.population, self.window(state, index), smoothed, rng).best(smoothed)]

    def front(self, state: State) -> tuple[Indices, Floats]:
        """What nothing dominates by the models' means: the luckiest of many equals is not the best."""
        rows = np.flatnonzero(state.current)
        smoothed = self.landscape(state).smoothed(state.values, state.objectives)[rows]
        best = non_dominated(smoothed)
        return rows[best], smoothed[best]

    def landscape(self, state: State) -> Landscape:
        """The models of ``state``; the last is remembered, as two steps ask for it."""
        key = zlib.crc32(
            state.objectives[state.current].tobytes(), zlib.crc32(state.values[state.current].tobytes())
        )
        if key not in self._memory:
            self._memory.clear()
            varies = (self.phases[-1].corners[0] != self.phases[-1].corners[1]) & (
                self.space.low < self.space.high
            )
            self._memory[key] = Landscape.of(self.space, self.evaluators, varies, state)
        return self._memory[key]
