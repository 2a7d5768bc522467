"""``State``: all that the next generation of a search depends on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jcw_core.space.space import Population
from jcw_search.pareto import Floats, Indices, non_dominated


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """All that the next generation depends on, beside its random numbers.

    Args:
        generation: the last that ended; 0 is the random first population.
        values: (archive, dimensions) every architecture evaluated so far, of those that the variant
            can reach and the constraints allow.
        objectives: (archive, objectives) their values, in the order of the evaluators.
        current: (archive,) False where the evaluators have since said that earlier values no
            longer hold.
        population: (population,) indices into the archive.
        limits: (phases + 1, 2, objectives) values of the smallest and largest architecture of each
            phase, then of the space.
        hypervolume: (generations so far + 1,) of the archive's current values.
        failed: (failures, dimensions) architectures that an evaluator had no finite value for.
    """

    generation: int
    values: Population
    objectives: Floats
    current: NDArray[np.bool_]
    population: Indices
    limits: Floats
    hypervolume: Floats
    failed: Population

    def __repr__(self) -> str:
        return f"<State of generation {self.generation}: {len(self.values)} evaluated>"

    @property
    def front(self) -> Indices:
        """Indices of the non-dominated architectures among the current values, by rising latency."""
        current = np.flatnonzero(self.current)
        return current[non_dominated(self.objectives[current])]

    @property
    def known(self) -> Population:
        """(archive + failures, dimensions) every architecture that need not be met again."""
        return np.concatenate([self.values, self.failed]) if len(self.failed) else self.values
