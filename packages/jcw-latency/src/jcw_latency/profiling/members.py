"""``covering_members``: which networks of a space run end to end, for a fit or a check that holds all over it."""

from __future__ import annotations

import numpy as np

from jcw_core.space.space import Population, SearchSpace


def covering_members(space: SearchSpace, count: int, rng: np.random.Generator) -> Population:
    """The corners of a space and random members of it, (count, dimensions).

    The corners are narrow and sparse, wide and dense, wide and sparse, narrow and dense: a run's cost beyond its
    layers depends on how much data moves and on how many weights are read, and in the last two these differ most.
    """
    width = np.array([variable.kind == "width" for variable in space.variables], dtype=bool)
    low, high = space.low, space.maximum
    corners = [low, high, np.where(width, high, low), np.where(width, low, high)]
    return np.vstack([*corners, space.sample(count, rng)])[:count]
