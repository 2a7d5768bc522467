"""Which points of a profile need more rounds: those with uncertain medians, and those that break monotonicity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jcw_latency.options import LatencyOptions
from jcw_latency.profiling.grid import Plan
from jcw_latency.profiling.samples import Samples

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Convergence:
    """How far a profile has come.

    Args:
        plan: what is timed.
        samples: timings of the plan's problems; they grow while they are held here.
        options: how certain medians must be.
    """

    plan: Plan
    samples: Samples
    options: LatencyOptions

    @property
    def done(self) -> float:
        """Share of the least rounds of all problems that are taken."""
        return float(np.minimum(self.samples.taken / self.options.min_rounds, 1).mean())

    def needs_more_rounds(self) -> NDArray[np.intp]:
        """Problems that need more rounds."""
        taken = self.samples.taken
        if (taken < self.options.min_rounds).any():
            # Those that lag behind: an interrupted sweep is completed before the next.
            return np.flatnonzero(taken == taken.min())
        return np.flatnonzero((self.uncertain() | self.not_monotone()) & (taken < self.options.rounds))

    def uncertain(self) -> Mask:
        """Problems the half-width of whose median's confidence interval is above the tolerance."""
        return self.samples.half_widths() > self.tolerance()

    def not_monotone(self) -> Mask:
        """Problems that cost more than a neighbour with more width or density, beyond what is uncertain."""
        median, half = self._median, self.samples.half_widths() + self.tolerance()
        found = np.zeros(len(self.plan.problems), dtype=bool)
        for layer in self.plan.layers:
            for axis in range(layer.index.ndim):
                index = np.moveaxis(layer.index, axis, 0)
                lower, upper = index[:-1].ravel(), index[1:].ravel()
                lower, upper = lower[lower >= 0], upper[lower >= 0]
                broken = median[lower] - median[upper] > half[lower] + half[upper]
                found[lower[broken]] = found[upper[broken]] = True
        return found

    def tolerance(self) -> NDArray[np.float64]:
        """Error that each median may have, seconds.

        A share of the median, but no less than the share of a tenth of the network's mean layer: below
        that, precision is spent on what no prediction would notice.
        """
        median = self._median
        error: NDArray[np.float64] = self.options.tolerance * np.maximum(median, 0.1 * self._mean_layer)
        return error

    def interpolation_tolerance(self) -> NDArray[np.float64]:
        """Error that a prediction of each problem by interpolation may have, seconds.

        A share of the network's mean layer, and of the geometric mean of both for what takes longer: a share
        of the layer itself would let the few long layers decide the error of the sum.
        """
        mean = self._mean_layer
        longer = np.sqrt(mean * np.maximum(self._median, mean))
        found: NDArray[np.float64] = self.options.adaptive_tolerance * longer
        return found

    @property
    def _median(self) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self.samples.quantiles()[1]
        return found

    @property
    def _mean_layer(self) -> float:
        median = self._median
        return float(np.mean([median[layer.index.flat[-1]] for layer in self.plan.layers]))
