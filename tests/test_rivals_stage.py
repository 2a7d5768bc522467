"""The stage of the example package ``jcw-rivals`` in a run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from jcw_core.datasets.memory import MemoryDataset
from jcw_core.errors import JcwError, RecipeError
from jcw_core.hookspecs import hookimpl
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import run
from jcw_core.run.records import Front
from jcw_latency import LatencyPredictor, LatencyTable

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "jcw-rivals"))
from jcw_rivals import plugin

RECIPE = """
[run]
threads = 1

[network]
backbone = "resnet18"
width = 0.125

[data]
name = "noise"
holdout = 40

[device]
name = "host"
layer_ms = 0.01
model_ms = 0.01

[latency]
widths = 1
densities = 1
min_rounds = 1
rounds = 1
whole_networks = 0

[supernet]
epochs = 1
batch_size = 60
calibration_images = 64

[rival]
method = "halp"
"""


@dataclass(frozen=True)
class NoKeys:
    """A dataset without keys."""


class Noise:
    """A hundred small images of nothing."""

    name = "noise"
    options = NoKeys

    def open(self, split, options):
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (100, 1, 16, 16)).astype(np.uint8)
        return MemoryDataset(("a", "b"), (0.5,), (0.25,), pixels, np.arange(100) % 2)

    @hookimpl
    def jcw_register_datasets(self):
        return [self]


def rival(tmp_path, **keys):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    registry = Registry({"jcw_rivals": plugin, "noise": Noise()})
    found = load_recipe(recipe, registry, {f"rival.{key}": value for key, value in keys.items()})
    context = Context(found, registry, RunDirectory(tmp_path / "run"))
    run(context, until="rival")
    return context


def test_the_stage_writes_a_front(tmp_path):
    with pytest.raises(RecipeError, match=r"\[rival\] budgets_ms"):
        rival(tmp_path)
    table = LatencyTable.load(tmp_path / "run" / "table.npz")
    space = rival(tmp_path, budgets_ms=[1000.0]).space
    dense = LatencyPredictor(table, space).predict(space.maximum[None])[0]
    budgets = [0.7 * dense, 0.9 * dense]
    for method in ("halp", "uniform", "fast-sparse", "dmcp", "amc"):
        context = rival(tmp_path, method=method, budgets_ms=budgets, evaluations=6)
        front = Front.read(context.path("rival.json"))
        assert (front.network, front.search["strategy"]) == ("resnet18", method)
        latencies = [candidate.objectives["latency"] for candidate in front.candidates]
        assert latencies == sorted(latencies)
        assert latencies[-1] <= budgets[-1]
        assert all(0 <= candidate.objectives["error"] <= 1 for candidate in front.candidates)
    with pytest.raises(JcwError, match="fast-sparse has no network within"):
        rival(tmp_path, method="fast-sparse", budgets_ms=[1e-6])
