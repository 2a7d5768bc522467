"""The objectives ``macs``, ``weights`` and ``bytes``: known exactly from the space alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jcw_core.space.costs import macs, model_bytes, weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from jcw_core.protocols import Run
    from jcw_core.space.space import Population, SearchSpace


@dataclass(frozen=True, slots=True)
class CostObjective:
    """An objective that needs no files, and its evaluator.

    Args:
        name: what recipes call it.
        cost: of (space, values), (n,).
        unit: for people.
    """

    name: str
    cost: Callable[[SearchSpace, Population], NDArray[np.float64]]
    unit: str = ""
    needs: tuple[str, ...] = ()
    exact: bool = True

    def open(self, run: Run) -> CostObjective:
        """Nothing to load."""
        return self

    def begin_generation(self, population: Population, generation: int) -> bool:
        """Costs hold for ever."""
        return False

    def evaluate(self, space: SearchSpace, population: Population) -> NDArray[np.float64]:
        """One cost per architecture, (n,)."""
        return self.cost(space, population)


COSTS = (
    CostObjective("macs", macs),
    CostObjective("weights", weights),
    CostObjective("bytes", model_bytes, "B"),
)
