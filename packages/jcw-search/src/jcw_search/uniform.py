"""What plain uniform pruning gives, by the estimates of a search: one share of all channels, one density, or both."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jcw_core.protocols import Reevaluating
from jcw_core.space.space import Population, SearchSpace
from jcw_search.evaluation import is_exact, value_of
from jcw_search.generations import Generations
from jcw_search.handover import Again, Handover
from jcw_search.pareto import Floats, Indices

_COUNT = 4
"""Of each kind."""
_LEVELS = 64
"""Shares from which they are taken, between the bounds of the space."""


def uniform(search: Generations, found: Handover, generation: int) -> Mapping[str, tuple[Population, Floats]]:
    """Uniform architectures about as fast as those of the front, by kind, with their objectives (n, m).

    They are valued as the front is, and announced as a generation of their own, so that they have the training that it has.

    Args:
        search: that is over.
        found: its front.
        generation: number of theirs.

    Returns:
        those of ``channels``, ``weights`` and ``both`` that its variant reaches; what has no value is left out.
    """
    kinds = _architectures(search, found.objectives[:, 0])
    if not kinds:
        return {}
    rows = np.unique(np.concatenate(list(kinds.values())), axis=0)
    columns = []
    for name, one in search.evaluators.items():
        one.begin_generation(rows, generation)
        asked = Again(one) if isinstance(one, Reevaluating) else one
        columns.append(value_of(search.space, name, asked, rows, len(rows) + 1))
    objectives = np.stack(columns, axis=1)
    valued: dict[str, tuple[Population, Floats]] = {}
    for kind, own in kinds.items():
        at = [int(np.flatnonzero((rows == row).all(axis=1))[0]) for row in own]
        kept = [index for index in at if np.isfinite(objectives[index]).all()]
        if kept:
            valued[kind] = rows[kept], objectives[kept]
    return valued


def _architectures(search: Generations, latencies: Floats) -> Mapping[str, Population]:
    """By kind, from small to large."""
    if not len(latencies):
        return {}
    found = {}
    for kind, rows in _ladders(search.space).items():
        reached = np.logical_or.reduce([phase.reaches(rows) for phase in search.phases])
        rows = rows[reached]
        chosen = rows[_chosen(search, rows, latencies)] if reached.sum() > 1 else rows[:0]
        if len(chosen):
            found[kind] = chosen
    return found


def _ladders(space: SearchSpace) -> Mapping[str, Population]:
    """Architectures of one share, which rises between the bounds of the space."""
    share, widths = np.linspace(0, 1, _LEVELS)[:, None], space.is_width
    cuts = {"channels": widths, "weights": ~widths, "both": np.ones_like(widths)}
    return {
        kind: space.decode(np.where(cut, share, 1.0) * np.ones(space.dimensions))
        for kind, cut in cuts.items()
        if cut.any()
    }


def _chosen(search: Generations, rows: Population, latencies: Floats) -> Indices:
    """The largest that are no slower than some latencies over the front's range; evenly spaced where these cost to ask for."""
    latency = next(iter(search.evaluators.values()))
    if not is_exact(latency):
        return np.unique(np.linspace(0, len(rows) - 1, _COUNT + 2).round().astype(np.intp)[1:-1])
    predicted = latency.evaluate(search.space, rows)
    wanted = np.linspace(latencies.min(), latencies.max(), _COUNT)
    fast = [np.flatnonzero(predicted <= ms) for ms in wanted]
    return np.unique(np.array([places[-1] for places in fast if len(places)], dtype=np.intp))
