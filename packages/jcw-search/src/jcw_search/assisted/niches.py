"""Niches: equal slices of latency, in each of which the best architecture lives on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jcw_search.pareto import Floats, Indices


@dataclass(frozen=True, slots=True)
class Niches:
    """Equal slices of latency, each with its own idea of what is best.

    With one objective beside latency that is its value; with more, the largest of them by weights
    that differ from slice to slice (the Tchebycheff scalarisation of Zhang and Li 2007).

    Args:
        low, high: latencies between which the slices lie.
        ideal, extent: (objectives - 1,) least value and range of the others.
        weights: (slices, objectives - 1).
    """

    low: float
    high: float
    ideal: Floats
    extent: Floats
    weights: Floats

    @classmethod
    def of(cls, count: int, window: Floats, known: Floats, rng: np.random.Generator) -> Niches:
        """Slice the latencies of ``window`` (2, objectives), with others as they are in ``known``."""
        others = known[:, 1:]
        extent = np.ptp(others, axis=0)
        weights = rng.exponential(size=(count, others.shape[1]))
        low, high = window[:, 0].min(), window[:, 0].max()
        extent = np.where(extent > 0, extent, 1)
        return cls(low, high, others.min(axis=0), extent, weights / weights.sum(axis=1, keepdims=True))

    def best(self, objectives: Floats) -> Indices:
        """Indices of the best of ``objectives`` (n, m) in each slice that has any, by rising latency."""
        if not len(objectives):
            return np.empty(0, dtype=np.intp)
        slices = self._slices(objectives[:, 0])
        share = (objectives[:, 1:] - self.ideal) / self.extent * self.weights[slices]
        # Among equals in the worst objective the others decide.
        score = share.max(axis=1) + 1e-3 * share.sum(axis=1)
        order = np.lexsort((score, slices))
        ranked = slices[order]
        found: Indices = order[np.concatenate([[True], ranked[1:] != ranked[:-1]])]
        return found

    def _slices(self, latency: Floats) -> Indices:
        count, extent = len(self.weights), self.high - self.low
        share = (latency - self.low) / (extent if extent > 0 else 1)
        return np.clip(share * count, 0, count - 1).astype(np.intp)
