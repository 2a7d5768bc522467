"""One model from its architecture to its weights: pretrain, ADMM, prune, fine-tune."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import numpy as np

from jcw_core.logs import logger
from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.network.shrink import Weights, shrink
from jcw_core.ranks import Ranks
from jcw_core.supernet.calibration import recalibrate
from jcw_core.supernet.evaluation import score_network
from jcw_core.training.accelerator import scoring_within_memory
from jcw_core.training.batches import EVALUATED, Batch, TrainingImages
from jcw_core.training.loop import Criterion, EpochReport, Method, Training
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic, TrainingOptions
from jcw_core.training.precision import computing
from jcw_retrain.admm import Admm, FixedMasks, prune
from jcw_retrain.options import Phases

_log = logger(__name__)


@dataclass(frozen=True)
class Fitted:
    """A model that has been trained.

    Args:
        model: with pruned weights at zero.
        residuals: ``|W - U| / |W|`` of each pruned layer after each epoch of ADMM.
        errors: share of ``probe`` classified wrongly after each phase that there was.
    """

    model: Model
    residuals: Mapping[str, Sequence[float]]
    errors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Fitting:
    """What it takes to train one model.

    Args:
        network: at full width.
        architecture: what the model keeps.
        initial: weights of the network cut down to the architecture; None for random ones.
        images: training images.
        calibration: images that set batch-norm statistics, unchanged.
        phases: hyper-parameters.
        arithmetic: precision and device.
        rng: a generator by key.
        folder: for checkpoints.
        report: told the epochs done, those to do, and the phase with its loss and time.
        stop: ends training with ``Stopped`` when set.
        criterion: in place of the cross-entropy on labels, in all phases.
        has_statistics: the initial weights bring batch-norm statistics of their own, which hold while nothing is trained.
        ranks: the processes that train it together.
        probe: images with labels, on which the model is scored after each phase; none by default.
    """

    network: Network
    architecture: Architecture
    initial: Weights | None
    images: TrainingImages
    calibration: Sequence[Batch]
    phases: Phases
    arithmetic: Arithmetic
    rng: Callable[..., np.random.Generator]
    folder: Path
    report: Callable[[int, str], None]
    stop: Event
    criterion: Criterion | None = None
    has_statistics: bool = False
    ranks: Ranks = field(default_factory=Ranks)
    probe: Sequence[Batch] = ()

    def run(self) -> Fitted:
        """Train, from the last checkpoint if there is one.

        Dense and pruned models go through the same phases, so that they compare; in a dense one nothing
        is pulled, pruned or masked. Batch norm is calibrated wherever weights change but by training.

        Raises:
            JcwError: training diverged.
        """
        module = Slimmable(shrink(self.network, self.architecture), self.rng("weights"))
        module.to(self.arithmetic.device)
        errors: dict[str, float] = {}
        if self.initial is not None:
            module.load_weights(self.initial)
            self._calibrate(module)
            errors |= self._scored(module, "begun")
        densities, phases, done = self.architecture.densities, self.phases, 0
        self._train(module, "pretrain", phases.pretrain, Method(), done)
        errors |= self._scored(module, "pretrain", phases.pretrain.epochs)
        done += phases.pretrain.epochs
        admm = Admm(module, densities, phases.rho, phases.admm.epochs)
        self._train(module, "admm", phases.admm, admm, done)
        errors |= self._scored(module, "admm", phases.admm.epochs)
        done += phases.admm.epochs
        masks = prune(module, densities)
        self._calibrate(module)
        errors |= self._scored(module, "pruned")
        self._train(module, "finetune", phases.finetune, FixedMasks(module, masks), done)
        if phases.finetune.ema:
            self._calibrate(module)
        errors |= self._scored(module, "finetune", phases.finetune.epochs)
        return Fitted(Model(module.network, module.weights(), self.architecture), admm.residuals, errors)

    def _scored(self, module: Slimmable, phase: str, epochs: int = 1) -> dict[str, float]:
        """The error after a phase; nothing where it has no epochs, or there is nothing to score on."""
        if not epochs or not len(self.probe):
            return {}
        return {phase: score_network(module, self.probe, self.arithmetic).error}

    def _calibrate(self, module: Slimmable) -> None:
        if self.has_statistics and not self.phases.epochs:
            return
        with computing(self.arithmetic), scoring_within_memory(EVALUATED, self.arithmetic):
            recalibrate(module, (images for images, _ in self.calibration))

    def _train(
        self, module: Slimmable, phase: str, options: TrainingOptions, method: Method, before: int
    ) -> None:
        def report(epoch: EpochReport) -> None:
            detail = f"{phase} {epoch.done}/{epoch.total}: loss {epoch.loss:.3f}, {epoch.seconds:.1f} s"
            self.report(before + epoch.done, detail)

        _log.info("%s: %s for %d epochs", self.folder.name, phase, options.epochs)
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
            criterion=self.criterion,
            ranks=self.ranks,
            key=f"retrain.{phase}.batch_size",
        ).run()
