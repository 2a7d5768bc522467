"""One model from its architecture to its weights: pretrain, ADMM, prune, fine-tune."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import numpy as np

from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.network.shrink import Weights, shrink, shrink_weights
from jcw_core.training.batches import TrainingImages
from jcw_core.training.loop import EpochReport, Method, Training
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic, TrainingOptions
from jcw_retrain.admm import Admm, FixedMasks, prune
from jcw_retrain.options import Phases


@dataclass(frozen=True)
class Fitting:
    """What it takes to train one model.

    Args:
        network: at full width.
        architecture: what the model keeps.
        initial: weights of the full network to start from; None for random ones.
        images: training images.
        phases: hyper-parameters.
        arithmetic: precision.
        rng: a generator by key.
        folder: for checkpoints.
        report: told the epochs done, those to do, and the phase with its loss and time.
        stop: ends training with ``Stopped`` when set.
    """

    network: Network
    architecture: Architecture
    initial: Weights | None
    images: TrainingImages
    phases: Phases
    arithmetic: Arithmetic
    rng: Callable[..., np.random.Generator]
    folder: Path
    report: Callable[[int, str], None]
    stop: Event

    def run(self) -> Model:
        """Train, from the last checkpoint if there is one. Raises ``JcwError`` when training diverges."""
        module = Slimmable(shrink(self.network, self.architecture), self.rng("weights"))
        if self.initial is not None:
            module.load_weights(shrink_weights(self.network, self.architecture, self.initial))
        densities, phases = self.architecture.densities, self.phases
        if all(density == 1 for density in densities.values()):
            self._train(module, "dense", phases.dense, Method(), 0)
            return Model(module.network, module.weights(), self.architecture)
        done = phases.pretrain.epochs
        self._train(module, "pretrain", phases.pretrain, Method(), 0)
        self._train(module, "admm", phases.admm, Admm(module, densities, phases.rho), done)
        masks = prune(module, densities)
        self._train(module, "finetune", phases.finetune, FixedMasks(module, masks), done + phases.admm.epochs)
        return Model(module.network, module.weights(), self.architecture)

    def _train(
        self, module: Slimmable, phase: str, options: TrainingOptions, method: Method, before: int
    ) -> None:
        def report(epoch: EpochReport) -> None:
            detail = f"{phase} {epoch.done}/{epoch.total}: loss {epoch.loss:.3f}, {epoch.seconds:.1f} s"
            self.report(before + epoch.done, detail)

        Training(
            module,
            self.images,
            options,
            self.arithmetic,
            rng=lambda epoch: self.rng(phase, epoch),
            path=self.folder / f"{phase}.safetensors",
            report=report,
            method=method,
            stop=self.stop,
        ).run()
