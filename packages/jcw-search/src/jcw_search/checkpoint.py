"""A search's state on disk, so that a killed run goes on after its last whole generation."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from jcw_core.files import atomic
from jcw_core.logs import logger
from jcw_search.errors import SettingError
from jcw_search.generations import Generations
from jcw_search.state import State

_log = logger(__name__)

_KINDS = {"current": np.bool_, "population": np.intp}
"""Types of the arrays that are not float64."""


def save(path: Path, state: State, search: Generations) -> None:
    """Write ``state`` atomically as arrays by field name, and beside it what ``search`` it is of."""
    with atomic(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, settings=np.array(json.dumps(_settings(search))), **asdict(state))
    _log.debug("generation %d: wrote %s", state.generation, path)


def load(path: Path, search: Generations) -> State | None:
    """Read what ``save`` wrote; None where there is nothing that ``search`` could go on from.

    A checkpoint only saves time, so one that is damaged counts as absent.

    Raises:
        SettingError: it is whole, but of a search for something else.
    """
    found = read(path)
    if found is None:
        return None
    state, settings = found
    for key, own in _settings(search).items():
        if settings.get(key) != own:
            raise SettingError(
                key,
                f"{path} is of a search with {settings.get(key)!r}, not {own!r}; give that, or delete the file",
            )
    if not _fits(state, search):
        return None
    _log.info("goes on after generation %d, from %s", state.generation, path)
    return state


def read(path: Path) -> tuple[State, dict[str, Any]] | None:
    """The state in a file and the settings of its search, whatever it is a search for; None where it is damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            settings = json.loads(str(arrays["settings"]))
            return State(generation=int(arrays["generation"]), **_arrays(arrays)), settings
    except Exception:  # zipfile, its decompressors and numpy do not say all that they raise
        return None


def _arrays(found: Any) -> dict[str, Any]:
    names = [field.name for field in fields(State) if field.name != "generation"]
    return {name: found[name].astype(_KINDS.get(name, np.float64), casting="safe") for name in names}


def _settings(search: Generations) -> dict[str, Any]:
    """What the archive means nothing without."""
    return {
        "objectives": list(search.evaluators),
        "variant": search.variant,
        "algorithm": search.algorithm,
    }


def _fits(state: State, search: Generations) -> bool:
    archive, objectives = len(state.current), len(search.evaluators)
    shapes = {
        "values": (archive, search.space.dimensions),
        "objectives": (archive, objectives),
        "current": (archive,),
        "population": (len(state.population),),
        "limits": (len(search.phases) + 1, 2, objectives),
        "hypervolume": (len(state.hypervolume),),
        "failed": (len(state.failed), search.space.dimensions),
    }
    return (
        all(getattr(state, name).shape == shape for name, shape in shapes.items())
        and len(state.population) > 0
        and bool(((state.population >= 0) & (state.population < archive)).all())
    )
