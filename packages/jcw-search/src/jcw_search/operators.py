"""Crossover and mutation in the unit cube (appendix A of the paper).

The printed formulas drop terms; these are the operators that they name. Shape suffixes: ``n``
individuals, ``d`` dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import JcwError

Floats = NDArray[np.float64]


def spread_factor(p: Floats, mu: float) -> Floats:
    """Spread u of simulated binary crossover at the probability ``p`` in [0, 1), any shape.

    Deb and Agrawal 1995, with the exponent 1/(mu + 1) in both branches.
    """
    base = np.where(p <= 0.5, 2 * p, 1 / (2 * (1 - p)))
    return np.asarray(base ** (1 / (mu + 1)))


def sbx(first_nd: Floats, second_nd: Floats, mu: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Simulated binary crossover: two children per pair, with the parents' mean in every dimension.

    Each variable is crossed with probability one half, and what is crossed is exchanged between the
    children with probability one half; the others stay as they are (Deb and Agrawal 1995).
    """
    u = spread_factor(rng.random(first_nd.shape), mu)
    exchanged, crossed = rng.random((2, *first_nd.shape)) < 0.5
    u = np.where(crossed, np.where(exchanged, -u, u), 1)
    middle, half = (first_nd + second_nd) / 2, u * (first_nd - second_nd) / 2
    return np.where(crossed, middle + half, first_nd), np.where(crossed, middle - half, second_nd)


def crossover(
    parents_nd: Floats, size: int, mu: float, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.intp]]:
    """Cross random pairs of different parents until there are ``size`` children (algorithm "Crossover").

    Returns:
        children (size, d), and for each the index of the parent whose uncrossed variables it has.
    """
    n, pairs = len(parents_nd), -(-size // 2)
    first = rng.integers(n, size=pairs)
    second = (first + rng.integers(1, max(n, 2), size=pairs)) % n
    children = np.concatenate(sbx(parents_nd[first], parents_nd[second], mu, rng))
    return children[:size], np.concatenate([first, second])[:size]


def mutation_step(position: Floats, r: Floats, mu: float) -> Floats:
    """Step of polynomial mutation, as a share of the range, at the probability ``r``.

    Args:
        position: where the parent lies in its range, 0 at the lower and 1 at the upper bound.
        r: in [0, 1), the same shape; below 0.5 the step goes down.
        mu: larger values give smaller steps.

    Returns:
        steps between ``-position`` and ``1 - position`` (Deb and Agrawal 1995).
    """
    power = mu + 1
    down = (2 * r + (1 - 2 * r) * (1 - position) ** power) ** (1 / power) - 1
    up = 1 - (2 * (1 - r) + (2 * r - 1) * position**power) ** (1 / power)
    return np.where(r <= 0.5, down, up)


def polynomial_mutation(
    features_nd: Floats,
    low_d: Floats,
    high_d: Floats,
    mu: float,
    probability: float,
    rng: np.random.Generator,
) -> Floats:
    """Mutate each dimension with ``probability``, by a step from the parent scaled by the range.

    Args:
        features_nd: within the bounds.
        low_d, high_d: the bounds; a dimension without a range stays as it is.
    """
    extent = high_d - low_d
    chosen = rng.random(features_nd.shape) < probability
    r = rng.random(features_nd.shape)
    position = (features_nd - low_d) / np.where(extent > 0, extent, 1)
    return features_nd + np.where(chosen, mutation_step(position, r, mu) * extent, 0)


@dataclass(frozen=True, slots=True)
class Variation:
    """How children are made: crossover, then mutation, clipped to the bounds after each.

    Args:
        mu_c: crossover; larger values keep children closer to their parents.
        mu_m: mutation; larger values give smaller steps.
        probability: of mutating a dimension.

    Raises:
        JcwError: a negative ``mu``, or a probability outside [0, 1].
    """

    mu_c: float = 0.5
    mu_m: float = 15.0
    probability: float = 0.1

    def __post_init__(self) -> None:
        if not (self.mu_c >= 0 and self.mu_m >= 0 and 0 <= self.probability <= 1):
            raise JcwError(f"{self}: mu_c and mu_m must be at least 0, probability between 0 and 1")

    def __call__(
        self, parents_nd: Floats, low_d: Floats, high_d: Floats, size: int, rng: np.random.Generator
    ) -> tuple[Floats, NDArray[np.intp]]:
        """Make ``size`` children of features (algorithm "Crossover and mutation").

        Returns:
            children (size, d) within the bounds, and the index of the parent each came from.
        """
        children, origin = crossover(parents_nd, size, self.mu_c, rng)
        children = np.clip(children, low_d, high_d)
        children = polynomial_mutation(children, low_d, high_d, self.mu_m, self.probability, rng)
        return np.clip(children, low_d, high_d), origin
