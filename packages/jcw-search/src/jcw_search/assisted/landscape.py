"""``Landscape``: all objectives of any architecture, exact or as models think of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jcw_core.protocols import Evaluator
from jcw_core.space.space import Population, SearchSpace
from jcw_search.assisted.model import Model
from jcw_search.evaluation import is_exact
from jcw_search.pareto import Floats
from jcw_search.state import State


@dataclass(frozen=True, slots=True)
class Landscape:
    """Objectives in the order of the search.

    Args:
        space: where the architectures come from.
        objectives: an exact evaluator, or else a model.
    """

    space: SearchSpace
    objectives: Sequence[Evaluator | Model]

    @classmethod
    def of(
        cls,
        space: SearchSpace,
        evaluators: Mapping[str, Evaluator],
        varies: NDArray[np.bool_],
        state: State,
    ) -> Landscape:
        """Learn the objectives that are not exact from the current values of ``state``."""
        rows, objectives = state.values[state.current], state.objectives[state.current]
        return cls(
            space,
            [
                one if is_exact(one) else Model.fit(space, varies, rows, objectives[:, column])
                for column, one in enumerate(evaluators.values())
            ],
        )

    def values(self, rows: Population) -> Floats:
        """(n, objectives) of ``rows``."""
        columns = [
            one.predict(rows) if isinstance(one, Model) else one.evaluate(self.space, rows)
            for one in self.objectives
        ]
        found = np.stack(columns, axis=1).reshape(len(rows), len(columns))
        # An exact objective may fail; what has no value is never the best of a slice.
        found[~np.isfinite(found)] = np.finfo(np.float64).max
        return found

    def smoothed(self, rows: Population, objectives: Floats) -> Floats:
        """``objectives`` (n, m) of evaluated ``rows``, those of models without their noise."""
        columns = [
            one.smoothed(rows, column) if isinstance(one, Model) else column
            for one, column in zip(self.objectives, objectives.T, strict=True)
        ]
        return np.stack(columns, axis=1)
