"""``front.json``: what a search hands over, and how it was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jcw_core.protocols import Run
from jcw_core.run import records
from jcw_core.space.space import Population, SearchSpace
from jcw_search.generations import Generations
from jcw_search.handover import Handover
from jcw_search.pareto import Floats
from jcw_search.state import State
from jcw_search.uniform import uniform


def front_of(run: Run, search: Generations, state: State) -> records.Front:
    """The front of a search that is over; objectives that can be are evaluated again for it, and uniform ones beside it."""
    found, names = Handover.of(search, state), tuple(search.evaluators)
    candidates = [
        records.Candidate(
            search.space.architecture(state.values[index]),
            _named(names, reported),
            _named(names, estimate) if (estimate != reported).any() else {},
        )
        for index, reported, estimate in zip(found.indices, found.objectives, found.estimates, strict=True)
    ]
    units = {name: run.registry.objectives[name].unit for name in names}
    failed = np.concatenate([state.failed, found.failed])
    summary = {
        **_summary(search, state),
        "again": list(found.again),
        "failed": _architectures(search.space, failed),
    }
    beside = {
        kind: [
            records.Candidate(search.space.architecture(row), _named(names, values))
            for row, values in zip(*valued, strict=True)
        ]
        for kind, valued in uniform(search, found, state.generation + 2).items()
    }
    return records.Front(run.network.name, units, candidates, summary, beside)


def _named(names: tuple[str, ...], values: Floats) -> Mapping[str, float]:
    return dict(zip(names, values.tolist(), strict=True))


def _architectures(space: SearchSpace, rows: Population) -> list[Mapping[str, Any]]:
    return [space.architecture(row).to_dict() for row in rows]


def _summary(search: Generations, state: State) -> Mapping[str, Any]:
    return {
        "strategy": search.strategy,
        "variant": search.variant,
        "generations": len(state.hypervolume) - 1,
        "population": search.population,
        "evaluated": len(state.values),
        "hypervolume": state.hypervolume.tolist(),
        "population_latency_ms": state.objectives[state.population, 0].tolist(),
    }
