"""Methods that train in their own way, within the epochs that every model has."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ablation_settings import ARITHMETIC
from ablation_supernet import supernet, told
from ablation_training import scored
from ablation_world import World, rng_of
from harness import Row
from jcw_rivals import GradualPruning, UniformSandwich

from jcw_core.network.architecture import Architecture
from jcw_core.network.model import Model
from jcw_core.network.shrink import shrink, shrink_weights
from jcw_core.supernet.calibration import recalibrate
from jcw_core.training.loop import Method, Training
from jcw_core.training.module import Slimmable
from jcw_core.training.options import TrainingOptions


def sandwiched(world: World, seed: int, name: str, model: Row) -> Row:
    """USNet: the shared weights of all uniform widths, cut down to the model's, with statistics of their own."""
    architecture = Architecture.from_dict(model["architecture"])
    shared = Slimmable(world.network, rng_of("weights", seed))
    began, epochs = time.process_time(), world.settings.supernet.epochs + world.settings.phases.epochs
    # All budgets cut the same weights, which the first of them trains.
    path, options = (
        world.folder(seed, "usnet") / "shared.safetensors",
        replace(world.settings.supernet, epochs=epochs),
    )
    _fit(world, seed, shared, options, UniformSandwich(world.space), path)
    module = Slimmable(shrink(world.network, architecture), rng_of("weights", seed))
    module.load_weights(shrink_weights(world.network, architecture, shared.weights()))
    recalibrate(module, (images for images, _ in world.images.calibration(1280)))
    return _finished(world, seed, name, model, module, began)


def gradually_pruned(world: World, seed: int, name: str, model: Row) -> Row:
    """Fast Sparse ConvNets: weights go while the network is trained."""
    architecture = Architecture.from_dict(model["architecture"])
    module = Slimmable(shrink(world.network, architecture), rng_of("training", seed, "weights"))
    module.load_weights(shrink_weights(world.network, architecture, supernet(world, seed).weights()))
    options = replace(world.settings.finetune, epochs=world.settings.phases.epochs)
    began, steps = time.process_time(), options.epochs * world.images.training.steps(options.batch_size)
    method = GradualPruning(module, architecture.densities, steps)
    _fit(world, seed, module, options, method, world.folder(seed, name) / "pruned.safetensors")
    return _finished(world, seed, name, model, module, began)


TRAINERS: dict[str, Callable[[World, int, str, Row], Row]] = {
    "usnet": sandwiched,
    "fast-sparse": gradually_pruned,
}
"""By method; all others train as the ablation does."""


def _fit(
    world: World, seed: int, module: Slimmable, options: TrainingOptions, method: Method, path: Path
) -> None:
    Training(
        module, world.images.training, options, ARITHMETIC,
        rng=lambda epoch: rng_of("training", seed, "pretrain", epoch),
        path=path,
        report=lambda epoch: told(path.parent.name, epoch),
        method=method,
    ).run()  # fmt: skip


def _finished(world: World, seed: int, name: str, model: Row, module: Slimmable, began: float) -> Row:
    architecture = Architecture.from_dict(model["architecture"])
    fitted = Model(module.network, module.weights(), architecture)
    seconds = time.process_time() - began
    return model | {"training_seconds": seconds} | scored(world, seed, name, fitted, on_test=True)
