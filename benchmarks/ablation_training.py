"""Trains one model, exports it, runs the file over the test images and times it beside the dense network."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

import numpy as np
from ablation_settings import ARITHMETIC
from ablation_supernet import supernet
from ablation_world import World, rng_of
from harness import Row

from jcw_core.network.architecture import Architecture
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.model import Model
from jcw_core.network.problem import LayerProblem
from jcw_core.network.shrink import shrink_weights
from jcw_core.training.module import Slimmable
from jcw_kernels import load
from jcw_kernels.stages import error_rate
from jcw_retrain.fitting import Fitting

TIMED = 20
"""Rounds in which a model and the dense network are timed one after the other."""


def trained(world: World, seed: int, name: str, model: Row, alone: bool = False) -> Row:
    """``model`` with what training from the supernet's weights made of it; continues from the last epoch that was finished.

    Args:
        name: of the folder for its checkpoints; the random numbers depend on the seed alone, so that models
            see the same images in the same order.
        alone: from random weights, and scored on held-out images that no search has seen, not on the test split.
    """
    folder, architecture = world.folder(seed, name), Architecture.from_dict(model["architecture"])
    shared = None if alone else supernet(world, seed).weights()
    began = time.process_time()
    fitted = Fitting(
        network=world.network,
        architecture=architecture,
        initial=None if shared is None else shrink_weights(world.network, architecture, shared),
        images=world.images.training,
        calibration=world.images.calibration(1280),
        phases=world.settings.alone if alone else world.settings.phases,
        arithmetic=ARITHMETIC,
        rng=partial(rng_of, "training", seed),
        folder=folder,
        report=lambda done, detail: print(f"{folder.name}: {detail}", flush=True),
        stop=Event(),
    ).run().model  # fmt: skip
    seconds = time.process_time() - began
    return model | {"training_seconds": seconds} | scored(world, seed, name, fitted, not alone)


def scored(world: World, seed: int, name: str, model: Model, on_test: bool) -> Row:
    """Export a model, and say what the file does; its folder of checkpoints is removed."""
    folder = world.folder(seed, name)
    world.registry.exporters["jcw"].export(model, folder / "model.jcw")
    images = world.images.test if on_test else world.images.reevaluation
    error = error_rate(load(folder / "model.jcw", threads=1), images)
    row = {"test_error": error, **timed(world, folder / "model.jcw")} if on_test else {"error": error}
    shutil.rmtree(folder)
    return row


def timed(world: World, path: Path) -> Row:
    """Medians of an exported model and of the dense network, in turns."""
    dense = world.folder("dense") / "model.jcw"
    if not dense.is_file():
        module = Slimmable(world.network, rng_of("dense"))
        whole = world.space.architecture(world.space.maximum)
        world.registry.exporters["jcw"].export(Model(world.network, module.weights(), whole), dense)
    seconds = world.device().measure_models([path, dense], TIMED)
    own, other = (float(value) * 1e3 for value in np.nanmedian(seconds, axis=0))
    return {"measured_ms": own, "dense_measured_ms": other}


def layer_latencies(world: World) -> Row:
    """Milliseconds over density of the four different convolutions with most work, all channels kept."""
    prunable = {v.name for v in world.space.variables if v.kind == "density"}
    different: dict[LayerProblem, str] = {}
    for layer in fuse(world.network):
        if layer.name in prunable:
            different.setdefault(problem_of(world.network, layer), layer.name)
    chosen = sorted(different.items(), key=lambda item: -item[0].macs)[:4]
    densities = [tenth / 10 for tenth in range(1, 11)]
    problems = [replace(problem, density=density) for problem, _ in chosen for density in densities]
    seconds = world.device().measure(problems, TIMED)
    median = np.nanmedian(seconds, axis=0).reshape(len(chosen), -1) * 1e3
    layers = [
        {"layer": name, "median_ms": row.tolist()} for (_, name), row in zip(chosen, median, strict=True)
    ]
    return {
        "kind": "layers", "network": world.settings.network, "densities": densities, "layers": layers
    }  # fmt: skip
