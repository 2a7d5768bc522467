"""A detector through a whole run: nothing is trained, no label is read, and its outputs are several maps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core_networks import random_weights, run
from safetensors.numpy import save_file

from jcw_core.datasets.memory import MemoryDataset
from jcw_core.datasets.split import normalise
from jcw_core.errors import RecipeError
from jcw_core.hookspecs import hookimpl
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run import pipeline
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory

RECIPE = """
[run]
threads = 1
[network]
file = "network.json"
weights = "weights.safetensors"
[data]
name = "noise"
holdout = 6
[device]
name = "host"
layer_ms = 0.01
model_ms = 0.1
[latency]
widths = 2
densities = 1
min_rounds = 1
rounds = 1
whole_networks = 0
check_networks = 0
[supernet]
mode = "post-training"
calibration_images = 16
[search]
algorithm = "plain"
objectives = ["latency", "distance"]
population = 6
generations = 1
[retrain]
models = 2
init = "supernet"
pretrain = { epochs = 0 }
admm = { epochs = 0 }
finetune = { epochs = 0 }
[export]
formats = ["jcw", "safetensors"]
"""


class Noise:
    """Images in two classes; the network has none."""

    name = "noise"

    @dataclass(frozen=True)
    class Options:
        pass

    options = Options

    def open(self, split: str, options: Any) -> MemoryDataset:
        rng = np.random.default_rng(split == "test")
        pixels = rng.integers(0, 256, (24, 3, 12, 16), dtype=np.uint8)
        return MemoryDataset(("one", "other"), (0.5,) * 3, (0.25,) * 3, pixels, np.arange(24) % 2)

    @hookimpl
    def jcw_register_datasets(self) -> list[Noise]:
        return [self]


def detector() -> Network:
    """Grouped, dilated and transposed convolutions, and maps of two sizes."""
    net = NetworkBuilder("detector", (3, 12, 16))
    net.conv("stem", 16, 3, 2)
    net.add("relu", "relu")
    net.conv("grouped", 16, 3, groups=4)
    net.batch_norm("norm")
    net.add("relu2", "relu")
    window: dict[str, Any] = {"kernel_size": (3, 3), "bias": True, "groups": 1}
    net.add("wide", "conv2d", out_channels=12, stride=(1, 1), padding=(2, 2), dilation=(2, 2), **window)
    coarse = net.add("relu3", "relu")
    net.add(
        "up",
        "conv_transpose2d",
        out_channels=8,
        stride=(2, 2),
        padding=(1, 1),
        output_padding=(1, 1),
        **window,
    )
    fine = net.add("relu4", "relu")
    ends = net.conv("boxes", 4, 1, source=coarse), net.conv("scores", 2, 1, source=fine)
    return net.build_joined(ends)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    network = detector()
    (tmp_path / "network.json").write_text(network.to_json())
    save_file(random_weights(network, np.random.default_rng(0)), tmp_path / "weights.safetensors")
    return tmp_path


def opened(folder: Path, *changes: tuple[str, str]) -> Context:
    text = RECIPE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "recipe.toml").write_text(text)
    registry = Registry({"noise": Noise()})
    recipe = load_recipe(folder / "recipe.toml", registry)
    return Context(recipe, registry, RunDirectory(folder / "run"))


def test_a_detector_runs_whole(folder: Path) -> None:
    from jcw_core.formats.safetensors_file import load_model

    pipeline.run(opened(folder))
    report = json.loads((folder / "run" / "report.json").read_text())
    rows = [report["baseline"], *report["models"]]
    assert len(rows) == 3
    # What the stage says, by the float64 reference on the weights that were handed over.
    network, weights = detector(), random_weights(detector(), np.random.default_rng(0))
    data = Noise().open("test", None)
    images = normalise(data.images(np.arange(len(data))), data)
    dense = np.array([run(network, weights, image)["output"] for image in images])
    for row in rows:
        model = load_model(folder / "run" / "models" / row["id"] / "model.safetensors")
        found = np.array([run(model.network, model.weights, image)["output"] for image in images])
        assert row["test_error"] is None
        assert row["distance"] == pytest.approx(
            np.square(found - dense).sum() / np.square(dense).sum(), rel=1e-3, abs=1e-6
        )
        assert model.network["grouped"].attributes["groups"] * 4 == model.network.shapes["grouped"][0]
    evaluation = json.loads((folder / "run" / "evaluation.json").read_text())["models"]
    assert all(set(score) == {"distance", "images"} for score in evaluation.values())
    page = (folder / "run" / "report.html").read_text()
    assert "test distance" in page
    assert "test error" not in page


@pytest.mark.parametrize(
    ("changes", "until", "message"),
    [
        ([('"distance"', '"error"')], "search", r"\[search\] objectives: 'error' needs labels, but detector makes"),
        ([('"distance"', '"loss"')], "search", r"\[search\] objectives: 'loss' needs labels"),
        ([("pretrain = { epochs = 0 }", "pretrain = { epochs = 1 }")], "retrain", r"\[retrain\] init: training needs labels"),
        (
            [("finetune = { epochs = 0 }", 'finetune = { epochs = 1 }\nteacher = "dense"\ndistillation = { labels = 0 }')],
            "retrain",
            r"\[retrain\] distillation: logits are of classes, and detector has none",
        ),
        ([('mode = "post-training"', 'mode = "continuous"')], "supernet", r"\[network\] file: detector takes .* and has"),
    ],
)  # fmt: skip
def test_what_needs_labels_is_refused(
    folder: Path, changes: list[tuple[str, str]], until: str, message: str
) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        pipeline.run(opened(folder, *changes), until)
    assert "\n" not in str(caught.value)


def test_a_detector_learns_from_what_it_was(folder: Path) -> None:
    """Features of the dense network are there without a class; what was made before training is made again."""
    pipeline.run(opened(folder), "retrain")
    models = sorted((folder / "run" / "models").glob("*/weights.safetensors"))
    before = [path.read_bytes() for path in models]
    taught = 'finetune = { epochs = 1, batch_size = 6 }\nteacher = "dense"\n'
    taught += "distillation = { labels = 0, logits = 0, features = 1 }"
    pipeline.run(opened(folder, ("finetune = { epochs = 0 }", taught)), "retrain")
    assert models
    assert all(path.read_bytes() != old for path, old in zip(models, before, strict=True))
