"""Kendall's tau-b of two rankings, and its confidence interval by the bootstrap."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import JcwError

Floats = NDArray[np.float64]

RESAMPLES = 2000
"""Bootstrap samples; an end of the interval then varies by about one percent of its width."""
CONFIDENCE = 0.95


def kendall_tau(first: Floats, second: Floats) -> float:
    """Kendall's tau-b of two samples (n,): 1 for the same order, -1 for the opposite one.

    Raises:
        JcwError: all values of a sample are the same, which is no order.
    """
    tau = _tau(_signs(first), _signs(second))
    if not np.isfinite(tau):
        raise JcwError("all networks have the same value, so there is no order to compare")
    return tau


def tau_interval(first: Floats, second: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """The central 95 % of tau over resampled pairs (the percentile bootstrap, Efron 1979).

    Args:
        first, second: (n,) the values of n networks.
        rng: draws which networks, with replacement; samples without an order are left out.
    """
    one, other, count = _signs(first), _signs(second), len(first)
    resampled = []
    for _ in range(RESAMPLES):
        drawn = np.ix_(*[rng.integers(count, size=count)] * 2)
        resampled.append(_tau(one[drawn], other[drawn]))
    ends = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
    low, high = np.nanquantile(resampled, ends)
    return float(low), float(high)


def _signs(sample: Floats) -> Floats:
    """(n, n) the sign of every difference."""
    signs: Floats = np.sign(sample[:, None] - sample[None, :])
    return signs


def _tau(one: Floats, other: Floats) -> float:
    scale = np.sqrt(np.count_nonzero(one) * np.count_nonzero(other))
    return float((one * other).sum() / scale) if scale else float("nan")
