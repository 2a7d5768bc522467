"""Which points need more rounds: uncertain medians and broken monotonicity."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jcw_latency.options import LatencyOptions
from jcw_latency.profiling.grid import Plan
from jcw_latency.profiling.samples import Samples

Mask = NDArray[np.bool_]


def outstanding(plan: Plan, samples: Samples, options: LatencyOptions) -> NDArray[np.intp]:
    """Problems that need more rounds."""
    early = samples.taken < options.min_rounds
    if early.any():
        # Those that lag behind: an interrupted sweep is completed before the next.
        return np.flatnonzero(samples.taken == samples.taken.min())
    doubtful = uncertain(plan, samples, options) | not_monotone(plan, samples, options)
    return np.flatnonzero(doubtful & (samples.taken < options.rounds))


def uncertain(plan: Plan, samples: Samples, options: LatencyOptions) -> Mask:
    """Problems the half-width of whose median's notch is above the tolerance."""
    return samples.uncertainty() > allowed(plan, samples, options)


def allowed(plan: Plan, samples: Samples, options: LatencyOptions) -> NDArray[np.float64]:
    """Error that each median may have, seconds.

    A share of the median, but no less than the share of a tenth of the network's mean layer: below
    that, precision is spent on what no prediction would notice.
    """
    median = samples.quantiles()[1]
    error: NDArray[np.float64] = options.tolerance * np.maximum(median, 0.1 * _mean_layer(plan, median))
    return error


def off_the_grid(plan: Plan, samples: Samples, options: LatencyOptions) -> NDArray[np.float64]:
    """Error that a prediction of each problem by interpolation may have, seconds.

    A share of the network's mean layer, and of the geometric mean of both for what takes longer: a share
    of the layer itself would let the few long layers decide the error of the sum.
    """
    median = samples.quantiles()[1]
    mean = _mean_layer(plan, median)
    found: NDArray[np.float64] = options.adaptive_tolerance * np.sqrt(mean * np.maximum(median, mean))
    return found


def _mean_layer(plan: Plan, seconds: NDArray[np.float64]) -> float:
    return float(np.mean([seconds[layer.index.flat[-1]] for layer in plan.layers]))


def not_monotone(plan: Plan, samples: Samples, options: LatencyOptions) -> Mask:
    """Problems that cost more than a neighbour with more width or density, beyond what is uncertain."""
    median, half = samples.quantiles()[1], samples.uncertainty() + allowed(plan, samples, options)
    found = np.zeros(len(plan.problems), dtype=bool)
    for layer in plan.layers:
        for axis in range(layer.index.ndim):
            index = np.moveaxis(layer.index, axis, 0)
            lower, upper = index[:-1].ravel(), index[1:].ravel()
            lower, upper = lower[lower >= 0], upper[lower >= 0]
            broken = median[lower] - median[upper] > half[lower] + half[upper]
            found[lower[broken]] = found[upper[broken]] = True
    return found
