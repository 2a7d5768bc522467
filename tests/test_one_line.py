"""Whatever the packages hand out is shown in one short line."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_copies import ROOMS, SAMPLES, first, network, second, space, weights

from jcw_core.datasets.memory import MemoryDataset
from jcw_core.network import OPERATIONS, Coupling, Model, Network, NetworkBuilder, Operation
from jcw_core.protocols import Calibration
from jcw_core.recipe import (
    Choice,
    NetworkOptions,
    Recipe,
    RunOptions,
    SpaceOptions,
    SplitOptions,
    load_recipe,
)
from jcw_core.registry import Registry
from jcw_core.run import Context, RunDirectory
from jcw_core.space import Bound, BoundError, SearchSpace
from jcw_kernels import Program, compile_model
from jcw_latency import LatencyPredictor, LatencyTable, LayerGrid
from jcw_search import AskTell, AssistedSearch, Evolution, Fixed, SearchResult, State


@cache
def recipe() -> Recipe:
    return load_recipe(Path(__file__).parents[1] / "examples" / "quickstart.toml", Registry())


def evaluators() -> dict[str, Fixed]:
    return {"latency": Fixed(first), "error": Fixed(second)}


SHOWN: Mapping[type, Callable[[], Any]] = {
    **SAMPLES,
    Calibration: Calibration,
    Operation: lambda: OPERATIONS["conv2d"],
    BoundError: lambda: BoundError(Bound("*", 0.5, 0.5), "width", "no layer matches"),
    NetworkBuilder: lambda: NetworkBuilder("net", (3, 8, 8)),
    Registry: Registry,
    Context: lambda: Context(recipe(), Registry(), RunDirectory(Path("run"))),
    RunDirectory: lambda: RunDirectory(Path("run")),
    Recipe: recipe,
    Choice: lambda: recipe().data,
    NetworkOptions: lambda: recipe().network,
    RunOptions: lambda: recipe().run,
    SpaceOptions: lambda: recipe().space,
    SplitOptions: lambda: recipe().split,
    AskTell: lambda: AskTell(space(), {"latency": first, "error": None}),
    AssistedSearch: lambda: AssistedSearch(space=space(), evaluators=evaluators()),
    Evolution: lambda: Evolution(space=space(), evaluators=evaluators()),
    Program: lambda: compile_model(Model(network(), weights(network()))),
    MemoryDataset: lambda: MemoryDataset(
        ("no", "yes"), (0.5,), (0.5,), np.zeros((40, 1, 28, 28), np.uint8), np.zeros(40, np.int64)
    ),
}


LARGE = (
    Network,
    Model,
    Coupling,
    SearchSpace,
    SearchResult,
    State,
    LatencyTable,
    LayerGrid,
    LatencyPredictor,
)
"""Those whose content would fill pages."""


def test_every_public_class_is_shown() -> None:
    rooms = map(importlib.import_module, (*ROOMS, "jcw_core", "jcw_core.recipe"))
    members = {getattr(room, name) for room in rooms for name in room.__all__ if name != "OPERATIONS"}
    classes = {m for m in members if inspect.isclass(m) and not getattr(m, "_is_protocol", False)}
    assert {c.__name__ for c in classes if not issubclass(c, Exception)} <= {c.__name__ for c in SHOWN}


@pytest.mark.parametrize("kind", SHOWN, ids=lambda kind: kind.__name__)
def test_objects_are_shown_in_one_short_line(kind: type) -> None:
    text = repr(SHOWN[kind]())
    assert kind.__name__ in text
    assert text.isprintable()
    assert len(text) <= (160 if kind in LARGE else 200)
