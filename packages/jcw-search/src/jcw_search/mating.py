"""New architectures from parents: never one that is known already."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from jcw_core.space.space import Population, SearchSpace
from jcw_search.constraints import Allowed
from jcw_search.operators import Variation
from jcw_search.phases import Phase

_ROUNDS = 10
"""Rounds of offspring before architectures are drawn at random: on a coarse grid of widths small steps round to
nothing, and parents that have grown alike breed only what is known."""

_DRAWS = 200
"""Rounds of random draws before a space counts as exhausted."""

_AT_ONCE = 64
"""First architectures drawn in a round, as constraints may leave few of them."""

Mask = NDArray[np.bool_]


def first_rows(
    space: SearchSpace, size: int, phase: Phase, allowed: Allowed, rng: np.random.Generator
) -> Population:
    """Up to ``size`` different random architectures of a first phase, beside its corners.

    Where widths and densities vary, a third of them varies widths alone and a third densities alone, so
    that the search begins with what its variants would begin with.

    Raises:
        JcwError: none meets the constraints.
    """
    samples = (_sample(space, max(size, _AT_ONCE), phase.free, rng) for _ in range(_DRAWS))
    found = unknown((allowed.within(rows, *phase.corners) for rows in samples), phase.corners, size)
    if not len(found) and not allowed.mask(phase.corners).any():
        raise allowed.impossible(space.sample(1000, rng, phase.free), phase.corners[0])
    return found


def _sample(space: SearchSpace, size: int, free: Mask, rng: np.random.Generator) -> Population:
    kinds = [free & space.is_width, free & ~space.is_width]
    samples = [space.sample(size, rng, kind) for kind in kinds if kind.any() and (kind != free).any()]
    samples.append(space.sample(size, rng, free))
    return np.stack(samples, axis=1).reshape(-1, space.dimensions)[:size]


def breed(
    space: SearchSpace,
    parents: Population,
    known: Population,
    size: int,
    phase: Phase,
    variation: Variation,
    allowed: Allowed,
    rng: np.random.Generator,
) -> Population:
    """Make up to ``size`` different architectures that are not among ``known``.

    Args:
        space: the whole space.
        parents: values (n, dimensions).
        known: values (k, dimensions) of every architecture met before.
        size: how many are wanted.
        phase: what varies; the other dimensions are inherited from one parent.
        variation: crossover and mutation.
        allowed: constraints, which all that is returned meets.
        rng: the only source of randomness.

    Returns:
        values (m, dimensions); m is below ``size`` only where the space has no more to give.
    """
    bred = (_offspring(space, parents, size, phase.free, variation, rng) for _ in range(_ROUNDS))
    found = unknown((allowed.within(rows, *phase.corners) for rows in bred), known, size)
    return filled(space, found, parents, known, size, phase, allowed, rng)


def filled(
    space: SearchSpace,
    found: Population,
    parents: Population,
    known: Population,
    size: int,
    phase: Phase,
    allowed: Allowed,
    rng: np.random.Generator,
) -> Population:
    """``found`` with random architectures that are new, until there are ``size``."""
    missing = size - len(found)
    if missing <= 0:
        return found
    draws = (_draw(space, parents, size, phase.free, rng) for _ in range(_DRAWS))
    drawn = (allowed.within(rows, *phase.corners) for rows in draws)
    return np.concatenate([found, unknown(drawn, np.concatenate([known, found]), missing)])


def scatter(
    space: SearchSpace,
    parents: Population,
    known: Population,
    size: int,
    phase: Phase,
    allowed: Allowed,
    rng: np.random.Generator,
) -> Population:
    """Like ``breed``, but the free dimensions are sampled afresh: parents may all be alike in them."""
    samples = (_inherit(space.sample(size, rng, phase.free), parents, phase.free, rng) for _ in range(_DRAWS))
    return unknown((allowed.within(rows, *phase.corners) for rows in samples), known, size)


def _offspring(
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


def unknown(batches: Iterable[Population], known: Population, size: int) -> Population:
    """The first ``size`` rows of the batches that are neither known nor there already."""
    marks = _marks(known)
    found: dict[bytes, NDArray[np.float64]] = {}
    for batch in batches:
        if len(found) >= size:
            break
        own = _marks(batch)
        # Only rows with the mark of one of the batch can be one of it.
        seen = {row.tobytes() for row in known[np.isin(marks, own)]}
        for row in batch:
            if len(found) < size and (key := row.tobytes()) not in seen:
                found.setdefault(key, row)
    return np.array(list(found.values())).reshape(-1, known.shape[1])


def _marks(rows: Population) -> NDArray[np.uint64]:
    """A number for each row, the same for equal rows."""
    odd = (2 * np.arange(rows.shape[1], dtype=np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(np.ascontiguousarray(rows).view(np.uint64) @ odd)
