"""A small network, data in memory, a front, and runs of the stages in processes that can be killed."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from jcw_core import plugin as core_plugin
from jcw_core.datasets.split import normalise
from jcw_core.hookspecs import hookimpl
from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.protocols import Progress
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import run
from jcw_core.run.records import FRONT, Candidate, Front
from jcw_core.supernet.calibration import calibrate
from jcw_retrain import plugin as retrain_plugin
from jcw_retrain.rank_fidelity import Sampling, rank_fidelity

torch.set_num_threads(1)


def network() -> Network:
    net = NetworkBuilder("small", (1, 6, 6))
    net.conv("conv1", 12, 3)
    net.batch_norm("bn1")
    start = net.add("relu1", "relu")
    net.conv("conv2", 10, 3)
    net.batch_norm("bn2")
    net.add("relu2", "relu")
    net.conv("conv3", 12, 1)
    net.add("add", "add", net.batch_norm("bn3"), start)
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", 3)
    return net.build()


SMALL = Architecture({"conv1": 8, "conv2": 8}, {"conv2": 0.4, "conv3": 0.5, "fc": 1.0})
NARROW = Architecture({"conv1": 4, "conv2": 4}, {})
MIDDLE = Architecture({"conv1": 12, "conv2": 8}, {"conv2": 0.6})


def trained() -> dict[str, np.ndarray]:
    """Weights as a training leaves them behind: channels differ in size, and statistics are those of the images."""
    rng, net, data = np.random.default_rng(4), network(), Stripes(160)
    tensors = {}
    for name, shape in net.parameter_shapes.items():
        size = np.linspace(1, 0.05, shape[0], dtype=np.float32).reshape(-1, *[1] * (len(shape) - 1))
        tensors[name] = torch.from_numpy(rng.normal(0, 1, shape).astype(np.float32) * size)
    images = torch.from_numpy(normalise(data.images(np.arange(160)), data))
    statistics = calibrate(net, tensors, [images])
    return {name: tensor.numpy() for name, tensor in {**tensors, **statistics}.items()}


def front() -> Front:
    values = [(NARROW, 1.0, 0.5), (SMALL, 2.0, 0.3), (MIDDLE, 4.0, 0.1)]
    candidates = [Candidate(a, {"latency": ms, "error": error}) for a, ms, error in values]
    return Front("small", {"latency": "ms", "error": ""}, candidates)


@dataclass(frozen=True)
class Stripes:
    """Noise with a bright row, column or nothing: three classes."""

    count: int
    classes: tuple[str, ...] = ("row", "column", "none")
    mean: tuple[float, ...] = (0.3,)
    std: tuple[float, ...] = (0.2,)
    image_shape: tuple[int, int, int] = (1, 6, 6)

    def __len__(self) -> int:
        return self.count

    @property
    def labels(self) -> np.ndarray:
        return np.arange(self.count, dtype=np.int64) % 3

    def images(self, indices: np.ndarray) -> np.ndarray:
        pixels = np.random.default_rng(1).integers(0, 100, (self.count, 1, 6, 6), dtype=np.uint8)[indices]
        for image, index in zip(pixels, indices, strict=True):
            where = index % 6
            if index % 3 == 0:
                image[:, where] = 255
            elif index % 3 == 1:
                image[:, :, where] = 255
        return pixels


class StripesData:
    name = "stripes"

    @dataclass(frozen=True)
    class Options:
        count: int = 160

    options = Options

    def open(self, split: str, options: Options) -> Stripes:
        return Stripes(options.count)


class SearchStage:
    """Stands in for a search."""

    name = "search"
    section = ""
    options = None
    reads = ()
    makes = (FRONT,)

    def needs(self, run: object) -> tuple[str, ...]:
        return ()

    def run(self, context: Context) -> tuple[str, ...]:
        front().write(context.path(FRONT))
        return ()


class Plugin:
    """What a run needs beside jcw-retrain; kills its process after ``kill_after`` events of progress."""

    def __init__(self, kill_after: int = 0) -> None:
        self.kill_after = kill_after
        self.events: list[Progress] = []

    @hookimpl
    def jcw_register_datasets(self) -> list[StripesData]:
        return [StripesData()]

    @hookimpl
    def jcw_register_stages(self) -> list[object]:
        return [SearchStage()]

    @hookimpl
    def jcw_progress(self, event: Progress) -> None:
        self.events.append(event)
        if len(self.events) == self.kill_after:
            os.kill(os.getpid(), signal.SIGKILL)


WEIGHTS = "w.safetensors"
"""Trained weights, which a recipe brings where they lie beside it; the supernet then takes no training."""
RECIPE = """
[run]
threads = {threads}
[network]
file = "network.json"
{weights}
[data]
name = "stripes"
holdout = 10
[supernet]
{supernet}
[retrain]
models = 3
{retrain}
pretrain = {{ epochs = 3, batch_size = 16, lr = 0.05 }}
admm = {{ epochs = 2, batch_size = 16, lr = 0.02, rho = 0.5 }}
finetune = {{ epochs = 2, batch_size = 16, lr = 0.02, weight_decay = 1e-4 }}
[export]
formats = ["safetensors"]
"""


def open_run(
    folder: Path, retrain: str = "", *, threads: int = 1, kill_after: int = 0
) -> tuple[Context, Plugin]:
    folder.mkdir(exist_ok=True)
    (folder / "network.json").write_text(network().to_json())
    brought = (folder / WEIGHTS).is_file()
    weights = f'weights = "{WEIGHTS}"' if brought else ""
    supernet = (
        'mode = "post-training"\ncalibration_images = 100' if brought else "epochs = 1\nbatch_size = 16"
    )
    recipe = RECIPE.format(retrain=retrain, threads=threads, weights=weights, supernet=supernet)
    (folder / "recipe.toml").write_text(recipe)
    plugin = Plugin(kill_after)
    registry = Registry({"core": core_plugin, "samples": plugin, "retrain": retrain_plugin}, installed=False)
    return Context(
        load_recipe(folder / "recipe.toml", registry), registry, RunDirectory(folder / "run")
    ), plugin


if __name__ == "__main__":
    context, _ = open_run(
        Path(sys.argv[1]), sys.argv[2], threads=int(sys.argv[3]), kill_after=int(sys.argv[4])
    )
    if len(sys.argv) > 5:
        rank_fidelity(context, Sampling("loss", networks=5, epochs=4, seed=0))
    else:
        run(context, until="export")
