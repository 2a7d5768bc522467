"""What the packages hand out can be copied, pickled and sent to other processes, and is shown in one line."""

# ruff: noqa: S301, TID251  what these tests unpickle they have pickled themselves

from __future__ import annotations

import copy
import importlib
import inspect
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jcw_core.network import (
    Architecture,
    ChannelGroup,
    Coupling,
    FusedLayer,
    LayerProblem,
    Model,
    Network,
    NetworkBuilder,
    Node,
    couple,
    fuse,
    problem_of,
)
from jcw_core.protocols import Calibration, DeviceInfo, Progress
from jcw_core.registry import Registry
from jcw_core.run.pipeline import StageEvent
from jcw_core.run.records import (
    Candidate,
    ChosenModel,
    Evaluation,
    Front,
    Measurements,
    ModelScore,
    ModelTimes,
)
from jcw_core.space import Bound, SearchSpace, Variable
from jcw_kernels import StepTime
from jcw_latency import (
    Breakdown,
    Fidelity,
    LatencyOptions,
    LatencyPredictor,
    LatencyTable,
    LayerGrid,
    table_from_arrays,
)
from jcw_latency.fidelity.check import Point
from jcw_latency.table.axes import full_size, layer_axes
from jcw_search import (
    Constraints,
    Fixed,
    Nsga2Selection,
    SearchResult,
    State,
    UniformSelection,
    Variation,
    search,
)

ROOMS = (
    "jcw_core.network", "jcw_core.space", "jcw_core.run", "jcw_core.protocols",
    "jcw_latency", "jcw_kernels", "jcw_search",
)  # fmt: skip

NOT_COPIED = {
    "Operation": "a row of a table of functions; networks name it",
    "BoundError": "an exception",
    "NetworkBuilder": "a tool that makes a network",
    "Context": "holds the plugins and files of one process",
    "RunDirectory": "stands for files",
    "AskTell": "holds the user's functions",
    "AssistedSearch": "holds the user's functions",
    "Evolution": "holds the user's functions",
    "Program": "tested with the kernels",
}


@cache
def network() -> Network:
    return Registry().backbones["mobilenet_v2"].build(width=0.25, input_size=32, num_classes=10)


@cache
def space() -> SearchSpace:
    made = SearchSpace.of(network())
    assert made.encode(made.sample(2, np.random.default_rng(0))).shape == (2, made.dimensions)
    return made


@cache
def table() -> LatencyTable:
    device = DeviceInfo("toy", "cpu", "scalar", 1, {"engine": "1"})
    arrays, axes = {}, {}
    for layer in fuse(network()):
        problem = problem_of(network(), layer)
        axes[layer.name] = layer_axes(network(), layer, problem)
        arrays[layer.name] = (
            np.add.outer(*[np.arange(3.0)] * 2) if len(axes[layer.name]) == 2 else np.arange(3.0)
        )
        while arrays[layer.name].ndim < len(axes[layer.name]):
            arrays[layer.name] = np.add.outer(arrays[layer.name], np.arange(3.0))
        if not axes[layer.name]:
            arrays[layer.name] = np.array(1.0)
        assert all(full_size(problem, axis) > 0 for axis in axes[layer.name])
    return table_from_arrays(network(), arrays, axes=axes, device=device)


@cache
def architecture() -> Architecture:
    return space().architecture(space().low)


@cache
def result() -> SearchResult:
    return search(space(), {"latency": Fixed(first), "error": Fixed(second)}, population=8, generations=2)


def state() -> State:
    states: list[State] = []
    search(
        space(),
        {"latency": Fixed(first), "error": Fixed(second)},
        population=8,
        generations=1,
        callback=states.append,
    )
    return states[-1]


def first(space: SearchSpace, population: np.ndarray) -> np.ndarray:
    return space.encode(population).sum(axis=1)


def second(space: SearchSpace, population: np.ndarray) -> np.ndarray:
    return -space.encode(population)[:, 0]


def weights(network: Network) -> dict[str, np.ndarray]:
    shapes = {**network.parameter_shapes, **network.buffer_shapes}
    return {name: np.ones(shape, np.float32) for name, shape in shapes.items()}


SAMPLES: Mapping[type, Callable[[], Any]] = {
    Network: network,
    Node: lambda: network().nodes[3],
    Architecture: architecture,
    ChannelGroup: lambda: next(iter(couple(network()).groups.values())),
    Coupling: lambda: couple(network()),
    FusedLayer: lambda: fuse(network())[1],
    LayerProblem: lambda: problem_of(network(), fuse(network())[1]),
    Model: lambda: Model(network(), weights(network()), Architecture({}, {})),
    Bound: lambda: Bound("*", 0.5, 0.5),
    Variable: lambda: space().variables[0],
    SearchSpace: space,
    Candidate: lambda: Candidate(architecture(), {"latency": 1.0}),
    Front: lambda: Front("net", {"latency": "ms"}, [Candidate(architecture(), {"latency": 1.0})]),
    Measurements: lambda: Measurements(
        DeviceInfo("toy", "CPU", "scalar", 1), {"m1": ModelTimes(1.0, 0.9, 1.1, 20)}
    ),
    Evaluation: lambda: Evaluation({"m1": ModelScore(0.1, 200)}),
    ChosenModel: lambda: ChosenModel("m1", architecture(), 1.0, 1.0, 0.1, 7, "m1.safetensors"),
    StageEvent: lambda: StageEvent("search", "started", 0, 2),
    Progress: lambda: Progress("search", "generation", 1, 2),
    Calibration: lambda: Calibration("percentile", 0.01, "pairs"),
    DeviceInfo: lambda: DeviceInfo("toy", "cpu", "scalar", 1, {"engine": "1"}),
    LatencyOptions: LatencyOptions,
    LayerGrid: lambda: table().grids[1],
    LatencyTable: table,
    LatencyPredictor: lambda: LatencyPredictor(table(), space()),
    Fidelity: lambda: Fidelity(tuple(Point(1.0, 1.0, 1000) for _ in range(40))),
    Breakdown: lambda: LatencyPredictor(table(), space()).breakdown(architecture()),
    StepTime: lambda: StepTime("conv", "dense", 1.0, 1.0, 1.0, 1.0),
    Fixed: lambda: Fixed(first),
    Nsga2Selection: Nsga2Selection,
    Constraints: lambda: Constraints(max_latency_ms=2.0),
    UniformSelection: UniformSelection,
    Variation: Variation,
    SearchResult: result,
    State: state,
}  # fmt: skip


def test_every_public_class_has_a_sample() -> None:
    classes = {
        value
        for room in map(importlib.import_module, ROOMS)
        for value in (getattr(room, name) for name in room.__all__)
        if inspect.isclass(value) and not getattr(value, "_is_protocol", False)
    }
    assert {c.__name__ for c in classes - SAMPLES.keys()} <= NOT_COPIED.keys()


def same(one: Any, other: Any) -> bool:
    """Equal in type and in all that they hold, arrays value by value."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    if is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if hasattr(one, "__dict__") and not callable(one):
        return same(vars(one), vars(other))
    return bool(one == other)


@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.__name__)
def test_copies_and_pickles_are_the_same_again(kind: type) -> None:
    original = SAMPLES[kind]()
    for made in (copy.copy(original), copy.deepcopy(original), pickle.loads(pickle.dumps(original))):
        assert same(made, original)
        # By value where that can be told, by identity where arrays decide; never an error.
        assert (made == original) in (True, False)
        if made == original and kind.__hash__ is not None:
            with suppress(TypeError):
                assert hash(made) == hash(original)


@pytest.mark.parametrize("kind", [Network, Node, Architecture, SearchSpace, LayerProblem, Bound, DeviceInfo])
def test_values_equal_their_copies(kind: type) -> None:
    original = SAMPLES[kind]()
    assert copy.deepcopy(original) == pickle.loads(pickle.dumps(original)) == original


def test_a_network_keeps_its_place_in_a_dict_in_another_process(tmp_path: Path) -> None:
    """Text hashes to another number in each process, so no hash may travel."""
    hash(network())
    for name, sample in (("network", network()), ("architecture", architecture())):
        (tmp_path / name).write_bytes(pickle.dumps({sample: name}))
    lines = """
        import pickle, sys
        from jcw_core.network import Architecture, Network
        for name in ("network", "architecture"):
            found = pickle.load(open(f"{sys.argv[1]}/{name}", "rb"))
            (key,) = found
            again = Network.from_json(key.to_json()) if name == "network" else Architecture.from_dict(key.to_dict())
            assert found[again] == name
    """
    program = "\n".join(line[8:] for line in lines.splitlines())
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, env=environment)


def test_processes_that_start_afresh_take_and_give_networks() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(couple, network()).result() == couple(network())
        assert pool.submit(copy.copy, space()).result() == space()


def test_mappings_of_frozen_objects_do_not_change() -> None:
    with_a_flag = NetworkBuilder("net", (3, 8, 8))
    with_a_flag.conv("conv", 4, 3)
    node, shapes = with_a_flag.build()["conv"], with_a_flag.build().shapes
    for mapping in (node.attributes, shapes, architecture().widths, architecture().densities):
        before = dict(mapping)
        for change in (
            lambda m: m.__setitem__("x", 1),
            lambda m: m.__delitem__(next(iter(m))),
            lambda m: m.update(x=1),
            lambda m: m.pop(next(iter(m))),
            lambda m: m.popitem(),
            lambda m: m.setdefault("x", 1),
            lambda m: m.clear(),
            lambda m: m.__ior__({"x": 1}),
        ):
            with pytest.raises(TypeError, match="does not change"):
                change(mapping)
        assert mapping == before
        assert not set(dir(dict)) - set(dir(type(mapping)))
