"""New architectures from parents: never one that is known already."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from jcw_core.space.space import Population, SearchSpace
from jcw_search.operators import Variation

_BROODS = 10
"""Broods before architectures are drawn at random: on a coarse grid of widths small steps round to
nothing, and parents that have grown alike breed only what is known."""

_DRAWS = 200
"""Random draws before a space counts as exhausted."""

Mask = NDArray[np.bool_]


def breed(
    space: SearchSpace,
    parents: Population,
    known: Population,
    size: int,
    free: Mask,
    variation: Variation,
    rng: np.random.Generator,
) -> Population:
    """Make up to ``size`` different architectures that are not among ``known``.

    Args:
        space: the whole space.
        parents: values (n, dimensions).
        known: values (k, dimensions) of every architecture met before.
        size: how many are wanted.
        free: dimensions that vary; the others are inherited from one parent.
        variation: crossover and mutation.
        rng: the only source of randomness.

    Returns:
        values (m, dimensions); m is below ``size`` only where the space has no more to give.
    """
    broods = (_brood(space, parents, size, free, variation, rng) for _ in range(_BROODS))
    found = _unknown(broods, known, size)
    missing = size - len(found)
    if missing:
        draws = (_draw(space, parents, size, free, rng) for _ in range(_DRAWS))
        found = np.concatenate([found, _unknown(draws, np.concatenate([known, found]), missing)])
    return found


def scatter(
    space: SearchSpace,
    parents: Population,
    known: Population,
    size: int,
    free: Mask,
    rng: np.random.Generator,
) -> Population:
    """Like ``breed``, but the free dimensions are sampled afresh: parents may all be alike in them."""
    samples = (_inherit(space.sample(size, rng), parents, free, rng) for _ in range(_DRAWS))
    return _unknown(samples, known, size)


def _brood(
    space: SearchSpace,
    parents: Population,
    size: int,
    free: Mask,
    variation: Variation,
    rng: np.random.Generator,
) -> Population:
    low, high = space.encode(space.low), space.encode(space.high)
    features, origin = variation(space.encode(parents), low, high, size, rng)
    return np.where(free, space.decode(features), parents[origin])


def _draw(
    space: SearchSpace, parents: Population, size: int, free: Mask, rng: np.random.Generator
) -> Population:
    """Every value of a free dimension with equal chance, so that each architecture can come up."""
    # Outwards, since ``decode`` clips: a bound between two multiples of its step is a value of its own.
    first, last = np.floor(space.low / space.step + 1e-9), np.ceil(space.high / space.step - 1e-9)
    steps = np.floor(first + rng.random((size, space.dimensions)) * (last - first + 1))
    return _inherit(space.decode(steps * space.step / space.maximum), parents, free, rng)


def _inherit(values: Population, parents: Population, free: Mask, rng: np.random.Generator) -> Population:
    return np.where(free, values, parents[rng.integers(len(parents), size=len(values))])


def _unknown(batches: Iterator[Population], known: Population, size: int) -> Population:
    """The first ``size`` rows of the batches that are neither known nor there already."""
    seen = {row.tobytes() for row in known}
    found: list[NDArray[np.float64]] = []
    for batch in batches:
        for row in batch:
            if len(found) < size and row.tobytes() not in seen:
                seen.add(row.tobytes())
                found.append(row)
        if len(found) >= size:
            break
    return np.array(found).reshape(-1, known.shape[1])
