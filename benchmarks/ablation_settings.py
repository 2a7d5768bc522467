"""What ``ablation.py`` compares under: one place for every number that a result depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from jcw_core.training.options import Arithmetic, Augmentation, TrainingOptions
from jcw_latency import LatencyOptions
from jcw_retrain.options import Phases

SIZE = 32
"""Pixels on each side of CIFAR-10's images."""

ARITHMETIC = Arithmetic("fp32", channels_last=True)
AUGMENTATION = Augmentation(crop_padding=4, flip=True)

_SUPERNET = TrainingOptions(6, 128, 0.1, weight_decay=4e-5)
_PRETRAIN = TrainingOptions(1, 64, 0.1, weight_decay=1e-4, lr_warmup_epochs=0.1)
_ADMM = TrainingOptions(1, 64, 0.02, "constant", weight_decay=1e-4)
_FINETUNE = TrainingOptions(2, 64, 0.02)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that rows of one network depend on, the seed apart.

    Args:
        network: name of a backbone.
        width: factor on all its channels.
        stem_stride: of the first convolution; backbones have 1 for images as small as these, which costs four
            times as much.
        held_out: training images that are not trained on.
        validation: of these, those on which searches estimate errors; the rest evaluates fronts again.
        calibration: training images that set the batch-norm statistics of an estimate.
        supernet: training of the shared weights.
        draws: what each of its steps trains. Sandwiches rank networks better than one random sub-network a step does: of
            seven that were trained, Kendall's tau was .90 and .71.
        population: architectures that a search evaluates in a generation.
        generations: how many follow the first. Widths alone are half the variables of a joint search, and are ahead of it
            when it has made half as many.
        rough_images: validation images, and as many for calibration, of the comparison of selections.
        rough_generations: its generations.
        pretrain: of networks that begin with random weights.
        admm, finetune: training of every model.
        rho: ADMM's pull, the paper's. Ten times as much left one model .5 points behind after three epochs, 1.0 after twelve.
        speedups: the dense network's latency over the latencies at which models are compared.
        fidelity_networks: random networks that are trained for the supernet's rank fidelity.
        latency: how the table is measured.
    """

    network: str
    width: float
    stem_stride: int = 2
    held_out: int = 5000
    validation: int = 2000
    calibration: int = 256
    supernet: TrainingOptions = _SUPERNET
    draws: Literal["plain", "sandwich"] = "sandwich"
    population: int = 24
    generations: int = 15
    rough_images: int = 250
    rough_generations: int = 30
    pretrain: TrainingOptions = _PRETRAIN
    admm: TrainingOptions = _ADMM
    finetune: TrainingOptions = _FINETUNE
    rho: float = 0.01
    speedups: tuple[float, ...] = (3.5, 2.7, 1.9, 1.4)
    fidelity_networks: int = 10
    latency: LatencyOptions = field(default_factory=lambda: LatencyOptions(adaptive=True, rounds=200))

    @property
    def evaluations(self) -> int:
        """Architectures that each search evaluates."""
        return self.population * (self.generations + 1)

    @property
    def phases(self) -> Phases:
        """Those of every model, dense ones included, from the supernet's weights."""
        return Phases(replace(self.pretrain, epochs=0), self.admm, self.finetune, self.rho)

    @property
    def alone(self) -> Phases:
        """Those of networks that share nothing, by which the supernet's fidelity is judged."""
        return Phases(self.pretrain, self.admm, self.finetune, self.rho)

    def key(self) -> str:
        """A short hash that changes with any of them but how latency is measured: a table has a hash of its own."""
        own = {name: value for name, value in asdict(self).items() if name != "latency"}
        text = json.dumps([own, asdict(ARITHMETIC), asdict(AUGMENTATION)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


FULL = {
    "resnet18": Settings("resnet18", 0.25),
    # Half width has a step five times as long as ResNet-18's, this one twice.
    "mobilenet_v2": Settings("mobilenet_v2", 0.25),
}


def settings_of(networks: Sequence[str], quick: bool) -> list[Settings]:
    """Those of full results, or of a run that only shows that all pieces work."""
    return [_quick(FULL[name]) if quick else FULL[name] for name in networks]


def _quick(full: Settings) -> Settings:
    one = TrainingOptions(1, 16, 0.05)
    return replace(
        full, width=0.125, held_out=40, validation=20, calibration=16,
        supernet=replace(one, epochs=2), population=6, generations=3, rough_images=10, rough_generations=2,
        pretrain=one, admm=one, finetune=one, speedups=(1.5,), fidelity_networks=5,
        latency=LatencyOptions(widths=2, densities=2, min_rounds=2, rounds=2, whole_networks=6, check_rounds=2),
    )  # fmt: skip
