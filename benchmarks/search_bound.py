"""What a search can find at best: descent over all variables, with both objectives known."""

from __future__ import annotations

import numpy as np
from surrogate import Floats, World

from jcw_core.space.space import Population

_LEVELS = 24
"""Values that are tried of a variable."""

_PAIRS = 1500
"""Pairs of variables of which one is raised and another lowered, in each round."""

_PATIENCE = 6
"""Rounds without a better one before a descent ends."""


def bound(world: World, budgets_ms: Floats, rng: np.random.Generator) -> Population:
    """The best architecture that was found within each of rising budgets, (budgets, dimensions).

    Descents begin at the smallest architecture and climb from budget to budget, then come down from
    the largest, each beginning where the last ended.
    """
    best = np.tile(world.space.low, (len(budgets_ms), 1))
    for order in (range(len(budgets_ms)), range(len(budgets_ms) - 1, -1, -1), range(len(budgets_ms))):
        start = best[order[0]]
        for index in order:
            found = _descend(world, _within(world, start, budgets_ms[index]), budgets_ms[index], rng)
            if _error(world, found) < _error(world, best[index]):
                best[index] = found
            start = best[index]
    return best


def _descend(world: World, row: Population, budget_ms: float, rng: np.random.Generator) -> Population:
    """Take the best of many single and paired changes until none is better."""
    idle, error, radius = 0, _error(world, row), 0.3
    while idle < _PATIENCE:
        tried = np.concatenate([_single(world, row), _paired(world, row, radius, rng)])
        tried = tried[world.latency.evaluate(world.space, tried) <= budget_ms]
        errors = world.error(world.space, tried)
        if len(tried) and errors.min() < error - 1e-7:
            row, error, idle = tried[errors.argmin()], errors.min(), 0
        else:
            idle, radius = idle + 1, radius / 2
    return row


def _single(world: World, row: Population) -> Population:
    """Each variable at some of its values, the others as they are."""
    space = world.space
    rows = np.tile(row, (space.dimensions, _LEVELS, 1))
    for index in range(space.dimensions):
        rows[index, :, index] = np.linspace(space.low[index], space.high[index], _LEVELS)
    return space.decode(space.encode(rows.reshape(-1, space.dimensions)))


def _paired(world: World, row: Population, radius: float, rng: np.random.Generator) -> Population:
    """One variable up and another down."""
    space = world.space
    up, down = rng.integers(space.dimensions, size=(2, _PAIRS))
    rows, index = np.tile(row, (_PAIRS, 1)), np.arange(_PAIRS)
    reach = np.maximum(space.high - space.low, space.step) * radius
    rows[index, up] += np.maximum(rng.random(_PAIRS) * reach[up], space.step[up])
    rows[index, down] -= np.maximum(rng.random(_PAIRS) * reach[down], space.step[down])
    return space.decode(space.encode(np.clip(rows, space.low, space.high)))


def _within(world: World, row: Population, budget_ms: float) -> Population:
    """``row`` on its way to the smallest architecture, until it is fast enough."""
    shares = np.linspace(0, 1, 201)[:, None]
    low = world.space.low
    rows = world.space.decode(world.space.encode(row + shares * (low - row)))
    return rows[np.flatnonzero(world.latency.evaluate(world.space, rows) <= budget_ms)[0]]


def _error(world: World, row: Population) -> float:
    return float(world.error(world.space, row[None])[0])
