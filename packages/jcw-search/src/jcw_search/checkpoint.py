"""A search's state on disk, so that a killed run goes on after its last whole generation."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from jcw_core.files import atomic
from jcw_search.evolution import Evolution, State


def save(path: Path, state: State) -> None:
    """Write ``state`` atomically as arrays by field name."""
    with atomic(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **asdict(state))


def load(path: Path, evolution: Evolution) -> State | None:
    """Read what ``save`` wrote; None where there is nothing that ``evolution`` could go on from.

    A checkpoint only saves time, so one that is damaged counts as absent.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            state = State(
                generation=int(arrays["generation"]),
                values=arrays["values"].astype(np.float64, casting="safe"),
                objectives=arrays["objectives"].astype(np.float64, casting="safe"),
                current=arrays["current"].astype(np.bool_, casting="safe"),
                population=arrays["population"].astype(np.intp, casting="safe"),
                limits=arrays["limits"].astype(np.float64, casting="safe"),
                hypervolume=arrays["hypervolume"].astype(np.float64, casting="safe"),
            )
    except Exception:  # zipfile, its decompressors and numpy do not say all that they raise
        return None
    return state if _fits(state, evolution) else None


def _fits(state: State, evolution: Evolution) -> bool:
    archive, objectives = len(state.current), len(evolution.evaluators)
    shapes = {
        "values": (archive, evolution.space.dimensions),
        "objectives": (archive, objectives),
        "current": (archive,),
        "population": (len(state.population),),
        "limits": (len(evolution.phases) + 1, 2, objectives),
        "hypervolume": (len(state.hypervolume),),
    }
    return (
        all(getattr(state, name).shape == shape for name, shape in shapes.items())
        and len(state.population) > 0
        and bool(((state.population >= 0) & (state.population < archive)).all())
    )
