"""A search that learns: a model of each dear objective, refitted in every generation, ranks the proposals.

As in NSGANetV2 (Lu et al. 2020) and MSuNAS (Lu et al. 2020), but with latency in place of the crowding
distance: it is known exactly, so its whole range is sliced, and each slice has its best.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from jcw_core.space.space import Population
from jcw_search.assisted.landscape import Landscape
from jcw_search.assisted.niches import Niches
from jcw_search.assisted.proposals import Proposals
from jcw_search.generations import Generations
from jcw_search.mating import filled, scatter
from jcw_search.pareto import Floats, Indices, non_dominated
from jcw_search.phases import Phase
from jcw_search.state import State

_EVALUATIONS = 3
"""Evaluations for each variable, until which part of a generation is drawn at random."""

_DENSITIES, _WIDTHS = 1 / 3, 1 / 6
"""Shares of such a generation that have a survivor's widths and new densities, and its densities and new widths."""


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
        drawn = self._redrawn(state, phase, rng)
        proposals = Proposals(
            self.space, phase, self.allowed, self.landscape(state).values, self.window(state, index)
        )
        begin, known = state.values[state.current & phase.reaches(state.values)], [state.known, drawn]
        best = proposals.best(begin, np.concatenate(known), self.population - len(drawn), rng)
        found = np.concatenate([drawn, best])
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

    def _redrawn(self, state: State, phase: Phase, rng: np.random.Generator) -> Population:
        """Half a generation: survivors with their densities drawn anew, and others with their widths.

        None where only one kind varies, in the second half of the generations, or once models have enough to learn
        from: until then what they think best teaches them less than one kind at a time does.
        """
        found = np.empty((0, self.space.dimensions))
        free = phase.free & (self.space.low < self.space.high)
        widths, densities = free & self.space.is_width, free & ~self.space.is_width
        enough = len(state.values) >= _EVALUATIONS * free.sum() or 2 * state.generation >= self.generations
        if enough or not (widths.any() and densities.any()):
            return found
        parents = state.values[state.population]
        for kind, share in ((densities, _DENSITIES), (widths, _WIDTHS)):
            known, size = np.concatenate([state.known, found]), round(share * self.population)
            drawn = scatter(self.space, parents, known, size, replace(phase, free=kind), self.allowed, rng)
            found = np.concatenate([found, drawn])
        return found

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
