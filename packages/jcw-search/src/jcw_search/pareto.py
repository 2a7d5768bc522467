"""Non-dominated sorting, crowding distance and hypervolume; all objectives are minimised.

``moocore`` is imported where it is used: every start of ``jcw`` imports this package to list plugins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


def fronts(objectives: Floats) -> list[Indices]:
    """Non-dominated fronts, best first; each holds rising indices into ``objectives`` (n, m)."""
    if len(objectives) == 0:
        return []
    import moocore  # type: ignore[import-untyped]

    ranks = moocore.pareto_rank(objectives)
    return [np.flatnonzero(ranks == rank) for rank in range(int(ranks.max()) + 1)]


def non_dominated(objectives: Floats) -> Indices:
    """Indices of the points that no other dominates, by rising first objective; equal points once."""
    if len(objectives) == 0:
        return np.empty(0, dtype=np.intp)
    if objectives.shape[1] == 2:
        return _falling(objectives)
    import moocore

    best = np.flatnonzero(moocore.is_nondominated(objectives, keep_weakly=False))
    return best[np.lexsort(objectives[best].T[::-1])]


def _falling(objectives: Floats) -> Indices:
    """``non_dominated`` of two objectives: by the first, those whose second is below all before."""
    order = np.lexsort(objectives.T[::-1])
    second = objectives[order, 1]
    before = np.concatenate([[np.inf], np.minimum.accumulate(second)[:-1]])
    found: Indices = order[(second < before) | (np.arange(len(order)) == 0)]
    return found


def crowding_distance(objectives: Floats) -> Floats:
    """Crowding distance of each point within its front (Deb et al. 2002).

    Args:
        objectives: (n, m), one front.

    Returns:
        (n,): over the objectives, the sum of the gap between a point's neighbours, as a share of
        the front's range. The ends of the front have infinity, as have one or two points alone; an
        objective without a range adds nothing.
    """
    if len(objectives) <= 2:
        return np.full(len(objectives), np.inf)
    distance = np.zeros(len(objectives))
    for values in objectives.T:
        order = np.argsort(values, kind="stable")
        ranked = values[order]
        extent = ranked[-1] - ranked[0]
        if extent > 0:
            distance[order[1:-1]] += (ranked[2:] - ranked[:-2]) / extent
            distance[order[[0, -1]]] = np.inf
    return distance


def hypervolume(objectives: Floats, limits: Floats) -> float:
    """Share of the box between ideal and worst values that ``objectives`` dominate.

    Args:
        objectives: (n, m), latency first.
        limits: (2, m), values of the smallest and the largest architecture.

    Returns:
        0 to 1. Latency counts from the smallest architecture's, every other objective from zero
        (or from its lower limit if that is negative); the worst values are the worse limits. So 1
        would be a network as fast as the smallest that makes no errors.
    """
    worst, ideal = limits.max(axis=0), np.minimum(limits.min(axis=0), 0)
    ideal[0] = limits[:, 0].min()
    extent = worst - ideal
    if not (extent > 0).all() or len(objectives) == 0:
        return 0.0
    import moocore

    return float(moocore.hypervolume((objectives - ideal) / extent, ref=np.ones(len(extent))))
