"""Runs whose stages have all ended, for what reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.hookspecs import hookimpl
from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.options import option
from jcw_core.protocols import DeviceInfo
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run import records
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory

DEVICE = {"name": "toy", "cpu": "CPU <1>", "isa": "scalar", "threads": 1, "versions": {}}
HALF = Architecture({"one": 8}, {"two": 0.5})


class Images:
    classes = ("a", "b")
    mean = std = (0.5,)
    image_shape = (1, 8, 8)
    labels = np.arange(20, dtype=np.int64) % 2

    def __len__(self) -> int:
        return 20

    def images(self, indices: NDArray[np.intp]) -> NDArray[np.uint8]:
        return np.zeros((len(indices), 1, 8, 8), dtype=np.uint8)


class Plugin:
    @dataclass(frozen=True)
    class Options:
        size: int = option(20)

    name = "toy"
    options = Options

    def open(self, split: str, options: Any) -> Images:
        return Images()

    @hookimpl
    def jcw_register_datasets(self) -> Sequence[Any]:
        return [self]

    @hookimpl
    def jcw_register_report(self) -> Sequence[Any]:
        return [Section()]


class Section:
    name, title, order = "extra", "An extra", 1

    def data(self, context: Context) -> Mapping[str, Any]:
        return {"answer": 42}

    def html(self, data: Mapping[str, Any]) -> str:
        return f"<p>It is {data['answer']}.</p>"


def toy() -> Network:
    net = NetworkBuilder("toy", (1, 8, 8))
    net.conv("one", 16, 3)
    net.conv("two", 16, 3)
    net.add("pool", "global_avg_pool")
    net.add("flat", "flatten")
    net.linear("fc", 2)
    return net.build()


BASELINE = records.ChosenModel(records.BASELINE, Architecture({}, {}), None, 2.0, None, 2480, "models/b")


def chosen(name: str, architecture: Architecture, requested_ms: float | None = 1.2) -> records.ChosenModel:
    return records.ChosenModel(name, architecture, requested_ms, 1.0, 0.3, 700, f"models/{name}")


UNIFORM = [
    records.Candidate(Architecture({"one": channels}, {"two": 0.5}), {"latency": ms, "error": error})
    for channels, ms, error in ((4, 0.8, 0.41), (12, 1.6, 0.21))
]
"""One share of both."""


def context_of(folder: Path, network: Network | None = None) -> Context:
    """A run of a network that takes images of (1, 8, 8) and has two classes; nothing has been run."""
    (folder / "network.json").write_text((network or toy()).to_json())
    recipe = folder / "recipe.toml"
    recipe.write_text('[network]\nfile = "network.json"\n[data]\nname = "toy"\nholdout = 4\n')
    registry = Registry({"toy": Plugin()}, installed=False)
    return Context(load_recipe(recipe, registry), registry, RunDirectory(folder / "run"))


def write_run(
    context: Context,
    models: Sequence[records.ChosenModel] = (),
    times: Mapping[str, float | None] | None = None,
) -> None:
    """What the stages before the report leave behind.

    Args:
        context: the run.
        models: beside the baseline; one of half the width by default.
        times: milliseconds by model, 1.1 by default and 2.2 for the baseline.
    """
    models = [BASELINE, *(models or [chosen("m1", HALF)])]
    candidates = [records.Candidate(m.architecture, {"latency": 1.0, "error": 0.3}) for m in models[1:]]
    units = {"latency": "ms", "error": ""}
    records.Front("toy", units, candidates, uniform={"both": UNIFORM}).write(context.path(records.FRONT))
    records.ChosenModel.write_all(context.path(records.MODELS), models)
    files = {m.id: {"jcw": f"models/{m.id}.jcw"} for m in models}
    for name in files.values():
        context.path(name["jcw"]).write_bytes(b"12345")
    records.write_exports(context.path(records.EXPORTS), files)
    measured = {m.id: 1.1 for m in models} | {"baseline": 2.2} | (times or {})
    found = {
        name: None if ms is None else records.ModelTimes(ms, ms - 0.1, ms + 0.1, 20)
        for name, ms in measured.items()
    }
    records.Measurements(DeviceInfo(**DEVICE), found).write(context.path(records.MEASUREMENTS))
    errors = {m.id: records.ModelScore(0.105, 200) for m in models} | {
        "baseline": records.ModelScore(0.1, 200)
    }
    records.Evaluation(errors).write(context.path(records.EVALUATION))
