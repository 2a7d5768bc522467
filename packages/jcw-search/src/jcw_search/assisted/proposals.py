"""Which architectures are worth an evaluation: an evolution inside the search, on models alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jcw_core.space.space import Population, SearchSpace
from jcw_search.assisted.niches import Niches
from jcw_search.constraints import Allowed
from jcw_search.mating import unknown
from jcw_search.pareto import Floats
from jcw_search.phases import Phase

_GENERATIONS = 25
_OFFSPRING = 300
_NICHES = 2.4
"""Niches of the inner evolution for each architecture that is wanted of it."""

_EXCHANGED = 0.3
"""Probability that a variable comes from the second parent."""

_MUTATED = 2.0
"""Variables of a child that mutate, on average."""

_STEPS = (0.15, 0.05)
"""Standard deviations of a mutation as shares of the range, in turn."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """The inner evolution of one generation.

    Args:
        space, phase, allowed: where it may go.
        values: objectives (n, m) of rows, predicted or exact.
        window: (2, m) objectives between which latencies are sliced.
    """

    space: SearchSpace
    phase: Phase
    allowed: Allowed
    values: Callable[[Population], Floats]
    window: Floats

    def best(self, parents: Population, known: Population, size: int, rng: np.random.Generator) -> Population:
        """Up to ``size`` architectures that are not among ``known``, the best of each slice of latency.

        Args:
            parents: (n, dimensions) where to begin.
            known: (k, dimensions).
            size: how many are wanted.
            rng: the only source of randomness.
        """
        rows, objectives = parents, self.values(parents)
        niches = Niches.of(int(np.ceil(_NICHES * size)), self.window, objectives, rng)
        kept = niches.best(objectives)
        rows, objectives = rows[kept], objectives[kept]
        for generation in range(_GENERATIONS):
            born = self._offspring(rows, _STEPS[generation % len(_STEPS)], rng)
            rows = np.concatenate([rows, born])
            objectives = np.concatenate([objectives, self.values(born)])
            kept = niches.best(objectives)
            rows, objectives = rows[kept], objectives[kept]
        fresh = unknown([rows], known, len(rows))
        objectives = self.values(fresh)
        if not len(fresh):
            return fresh
        first = Niches.of(size, self.window, objectives, rng).best(objectives)
        others = rng.permutation(np.setdiff1d(np.arange(len(fresh)), first))
        found: Population = fresh[np.concatenate([first, others])[:size]]
        return found

    def _offspring(self, rows: Population, step: float, rng: np.random.Generator) -> Population:
        low, high = self.space.encode(self.space.low), self.space.encode(self.space.high)
        first, second = rng.integers(len(rows), size=(2, _OFFSPRING))
        shape = (_OFFSPRING, self.space.dimensions)
        x = self.space.encode(np.where(rng.random(shape) < _EXCHANGED, rows[second], rows[first]))
        moved = rng.random(shape) < _MUTATED / self.phase.free.sum()
        x = x + np.where(moved, rng.normal(0, step, shape) * (high - low), 0)
        born = np.where(self.phase.free, self.space.decode(np.clip(x, low, high)), rows[first])
        return np.unique(self.allowed.within(born, *self.phase.corners), axis=0)
