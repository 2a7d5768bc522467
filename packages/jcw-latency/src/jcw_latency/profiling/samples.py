"""Timings of layers or networks by round, their medians, and how certain those are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Samples:
    """Seconds by round and problem; NaN where there is none.

    Args:
        count: problems, or whole networks, that are timed.
        rounds: most rounds that each may get.
    """

    def __init__(self, count: int, rounds: int) -> None:
        self.seconds = np.full((rounds, count), np.nan)
        self.taken = np.zeros(count, dtype=np.int32)
        """Rounds that each has had, those that failed included."""

    def add(self, which: NDArray[np.intp], seconds: NDArray[np.float64]) -> None:
        """Take in further rounds (rounds, len(which)) of some; the first that still fit."""
        for row in seconds:
            free = self.taken[which] < len(self.seconds)
            self.seconds[self.taken[which[free]], which[free]] = row[free]
            self.taken[which[free]] += 1

    def put(self, rounds: NDArray[np.intp], which: NDArray[np.intp], seconds: NDArray[np.float64]) -> None:
        """Take in certain rounds (len(rounds), len(which)) of some, in place of what they were before."""
        self.seconds[np.ix_(rounds, which)] = seconds
        self.taken[which] = np.maximum(self.taken[which], rounds[-1] + 1)

    @property
    def counts(self) -> NDArray[np.int32]:
        """Timings of each problem that did not fail."""
        found: NDArray[np.int32] = np.isfinite(self.seconds).sum(axis=0, dtype=np.int32)
        return found

    def quantiles(self) -> NDArray[np.float64]:
        """Lower quartile, median and upper quartile of each problem, (3, n) seconds; NaN without timings."""
        # By hand: numpy's nanquantile takes one column after the other.
        rising, counts = np.sort(self.seconds, axis=0), self.counts
        places = np.array([[0.25], [0.5], [0.75]]) * np.maximum(counts - 1, 0)
        below = places.astype(np.intp)
        low, high = (np.take_along_axis(rising, i, axis=0) for i in (below, below + (places > below)))
        found: NDArray[np.float64] = low + (places - below) * (high - low)
        return found

    def half_widths(self) -> NDArray[np.float64]:
        """Half the width of each median's confidence interval, seconds.

        1.57 interquartile ranges over the root of the count (McGill, Tukey and Larsen 1978). Made for
        comparing two medians: they differ if their intervals do not overlap. One interval alone holds the true
        median in about 80 % of all cases at six rounds, and in 90 % at thirty.
        """
        low, _, high = self.quantiles()
        half: NDArray[np.float64] = 1.57 * (high - low) / np.sqrt(np.maximum(self.counts, 1))
        return half
