"""Selection strategies: who lives on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from jcw_core.errors import JcwError
from jcw_search.pareto import Floats, Indices, crowding_distance, fronts


@dataclass(frozen=True, slots=True)
class Nsga2Selection:
    """Whole non-dominated fronts, the last one cut by crowding distance (Deb et al. 2002)."""

    name: str = field(default="nsga2", init=False)

    def select(self, objectives: Floats, size: int, rng: np.random.Generator, *, limits: Floats) -> Indices:
        """Choose survivors; see ``jcw_core.protocols.Selection``."""
        return _fill(fronts(objectives), size, objectives)


@dataclass(frozen=True, slots=True)
class UniformSelection:
    """Uniform non-dominated sorting selection (section "Uniform non-dominated sorting selection").

    For each of N latencies T_i evenly spaced between the limits, the candidates are sorted into
    fronts by ``(|T_i - T|, error)``; the fronts enter in the order F_0^(0), F_1^(0), ..., F_0^(1), ...

    Args:
        targets: N. Large values let the first fronts fill the population and starve the later
            targets.

    Raises:
        JcwError: fewer than two targets.
    """

    targets: int = 4
    name: str = field(default="uniform", init=False)

    def __post_init__(self) -> None:
        if self.targets < 2:
            raise JcwError(f"targets = {self.targets}: uniform selection needs at least 2")

    def select(self, objectives: Floats, size: int, rng: np.random.Generator, *, limits: Floats) -> Indices:
        """Choose survivors; see ``jcw_core.protocols.Selection``."""
        latency = objectives[:, :1]
        by_target = []
        for target in np.linspace(limits[:, 0].min(), limits[:, 0].max(), self.targets):
            by_target.append(fronts(np.hstack([np.abs(target - latency), objectives[:, 1:]])))
        stages = max(map(len, by_target), default=0)
        ordered = [own[stage] for stage in range(stages) for own in by_target if stage < len(own)]
        return _fill(ordered, size, latency)


def _fill(ordered: Sequence[Indices], size: int, spread: Floats) -> Indices:
    """Take whole fronts while they fit, then the least crowded of the next by the columns of ``spread``."""
    chosen, missing, taken = [], size, np.zeros(len(spread), dtype=bool)
    for front in ordered:
        front = front[~taken[front]]
        if len(front) > missing:
            front = front[np.argsort(-crowding_distance(spread[front]), kind="stable")[:missing]]
        chosen.append(front)
        taken[front] = True
        missing -= len(front)
        if not missing:
            break
    return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.intp)
