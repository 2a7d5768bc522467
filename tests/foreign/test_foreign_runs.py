"""Detectors, segmenters and recognisers that nobody here made, through a whole run without labels or training.

Profiled, pruned after training, searched, exported, and compared with onnxruntime: settings are as small as they can be.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_foreign_files import FILES, assert_close, folder_of, from_runtime

from jcw_core.datasets.memory import MemoryDataset
from jcw_core.hookspecs import hookimpl
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import run

NAMES = ("classifier", "detector", "recogniser", "yolov8n")
"""Of ``FILES``; the others have layers whose order of removal alone takes many minutes."""
MODULES = {"pnet": (3, 48, 64), "rnet": (3, 24, 24), "onet": (3, 48, 48), "efficientnet_lite0": (3, 96, 96)}
"""Of ``foreign_networks``, with the size of their images."""
NORMALISED = ("efficientnet_lite0", *NAMES)
"""Those with batch norms."""

RECIPE = """
[run]
threads = 1
[network]
{network}
[data]
name = "smooth"
shape = {image}
holdout = 4
[device]
name = "host"
layer_ms = 0.01
model_ms = 0.1
[latency]
widths = 1
densities = 1
min_rounds = 1
rounds = 1
whole_networks = 0
check_networks = 0
[supernet]
mode = "post-training"
calibration_images = 8
[search]
algorithm = "plain"
objectives = ["latency", "distance"]
population = 4
generations = 1
[retrain]
models = 2
init = "supernet"
pretrain = {{ epochs = 0 }}
admm = {{ epochs = 0 }}
finetune = {{ epochs = 0 }}
[export]
formats = ["jcw", "onnx"]
"""


class Smooth:
    """A few images of any shape in three classes that no network here knows: noise, enlarged so that neighbours are alike."""

    name = "smooth"

    @dataclass(frozen=True)
    class Options:
        shape: tuple[int, ...] = (3, 32, 32)

    options = Options

    def open(self, split: str, options: Any) -> MemoryDataset:
        channels, height, width = options.shape
        rng, count = np.random.default_rng(split == "test"), 16
        small = rng.integers(0, 256, (count, channels, -(-height // 4), -(-width // 4)), dtype=np.uint8)
        pixels = small.repeat(4, 2).repeat(4, 3)[:, :, :height, :width]
        labels = np.arange(count) % 3
        return MemoryDataset(("one", "other", "third"), (0.5,) * channels, (0.25,) * channels, pixels, labels)

    @hookimpl
    def jcw_register_datasets(self) -> list[Smooth]:
        return [self]


def network_table(name: str) -> tuple[str, list[int]]:
    """The lines of ``[network]``, and the shape of an image."""
    if name in MODULES:
        return f'module = "foreign_networks:{name}"', list(MODULES[name])
    file = FILES[name]
    path = folder_of(file.package) / file.path
    return f'file = "{path}"\nshape = {list(file.shape)}\noutputs = {json.dumps(file.outputs)}', list(
        file.shape[1:]
    )


@pytest.mark.parametrize("name", [*NAMES, *MODULES])
def test_whole_runs(name: str, tmp_path: Path) -> None:
    from jcw_kernels import load

    network, image = network_table(name)
    (tmp_path / "recipe.toml").write_text(RECIPE.format(network=network, image=image))
    registry = Registry({"smooth": Smooth()})
    opened = Context(
        load_recipe(tmp_path / "recipe.toml", registry), registry, RunDirectory(tmp_path / "run")
    )
    run(opened)
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    model = report["models"][0]  # the fastest
    assert report["baseline"]["test_error"] is None
    # Batch norms take the statistics of these images, which are nothing like those that the networks know.
    assert 0 <= report["baseline"]["distance"] < (10 if name in NORMALISED else 1e-6)
    assert np.isfinite(model["distance"])
    assert model["kept_weights"] < report["baseline"]["kept_weights"]
    assert model["measured_latency_ms"] > 0
    pixels = np.random.default_rng(5).normal(size=(1, *image)).astype(np.float32)
    for row in (report["baseline"], model):
        files = tmp_path / "run" / "models" / row["id"]
        found = load(files / "model.jcw").run(pixels)
        assert_close(found, from_runtime((files / "model.onnx").read_bytes(), pixels))
