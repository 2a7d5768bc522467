"""What a search hands over: its front, with values that did not choose it where evaluators can give them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jcw_core.protocols import Reevaluating
from jcw_core.space.space import Population, SearchSpace
from jcw_search.assisted.niches import Niches
from jcw_search.evaluation import value_of
from jcw_search.generations import Generations
from jcw_search.pareto import Floats, Indices
from jcw_search.state import State


@dataclass(frozen=True, slots=True)
class Again:
    """An evaluator that asks another for its values on unseen data."""

    evaluator: Reevaluating

    def begin_generation(self, population: Population, generation: int) -> bool:
        """The other has been told."""
        return False

    def evaluate(self, space: SearchSpace, population: Population) -> Floats:
        """Evaluate again."""
        return self.evaluator.reevaluate(space, population)


@dataclass(frozen=True, slots=True)
class Handover:
    """The front as it is reported, by rising latency.

    Args:
        indices: into the archive.
        objectives: (front, objectives) what is reported.
        estimates: (front, objectives) what the front was chosen by.
        again: names of the objectives that were evaluated again.
        failed: (k, dimensions) what had no value then, and was dropped.
    """

    indices: Indices
    objectives: Floats
    estimates: Floats
    again: tuple[str, ...]
    failed: Population

    @classmethod
    def of(cls, search: Generations, state: State) -> Handover:
        """Choose the front, and evaluate it again where an evaluator has data that the search has not seen.

        Evaluating again costs, so then one architecture of each slice of latency is enough.
        """
        indices, estimates = search.front(state)
        again = {name: one for name, one in search.evaluators.items() if isinstance(one, Reevaluating)}
        objectives = state.objectives[indices]
        if not again:
            return cls(indices, objectives, estimates, (), state.failed[:0])
        window = search.window(state, len(search.phases) - 1)
        niches = Niches.of(search.population, window, estimates, np.random.default_rng(0))
        kept = niches.best(estimates)
        indices, estimates, objectives = indices[kept], estimates[kept], objectives[kept].copy()
        rows = state.values[indices]
        for column, (name, one) in enumerate(search.evaluators.items()):
            if name in again:
                one.begin_generation(rows, state.generation + 1)
                objectives[:, column] = value_of(search.space, name, Again(again[name]), rows, 1)
        fails = np.isnan(objectives).any(axis=1)
        return cls(indices[~fails], objectives[~fails], estimates[~fails], tuple(again), rows[fails])
