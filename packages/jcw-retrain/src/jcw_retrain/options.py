"""What a recipe may say about retraining, and the paper's hyper-parameters where it says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from jcw_core.errors import RecipeError
from jcw_core.options import option
from jcw_core.training.options import Arithmetic, Augmentation, TrainingOptions


@dataclass(frozen=True, slots=True)
class PhaseOptions:
    """One phase; what is left out comes from the paper's table for the backbone."""

    epochs: int | None = option(None, low=0, help="passes over the training images")
    batch_size: int | None = option(None, low=2, help="images per step")
    lr: float | None = option(None, low=0.0, help="highest learning rate")
    annealing: Literal["cosine", "constant"] | None = option(None, help="how lr falls; cosine ends at 0")
    weight_decay: float | None = option(None, low=0.0, help="on weights; not on biases and batch norm")


@dataclass(frozen=True, slots=True)
class AdmmOptions(PhaseOptions):
    """``[retrain.admm]``: a phase with the pull towards the pruned weights."""

    rho: float = option(0.01, low=0.0, help="weight of the pull; short trainings need more than the paper's")


@dataclass(frozen=True, slots=True)
class DistillationOptions:
    """``[retrain.distillation]``: what a model learns from, where it has a teacher."""

    labels: float = option(0.5, low=0.0, help="weight of the cross-entropy on labels; at 0 none is looked at")
    logits: float = option(0.5, low=0.0, help="weight of the divergence from the teacher's logits")
    features: float = option(
        0.0, low=0.0, help="weight of the error of each layer's outputs, as a share of the teacher's energy"
    )
    temperature: float = option(4.0, above=0.0, help="by which logits are divided before they are compared")
    frozen_batch_norm: bool = option(
        False, help="normalise by calibrated statistics and keep them; better where images are few"
    )

    def __post_init__(self) -> None:
        if not self.logits and not self.features:
            raise RecipeError("logits and features are 0, so nothing is learnt from the teacher; raise one")


@dataclass(frozen=True, slots=True)
class RetrainOptions:
    """``[retrain]``: which models are trained, and how."""

    models: int = option(7, low=1, help="models, spread evenly in latency over the front")
    budgets_ms: tuple[float, ...] = option(
        (), above=0.0, help="in place of models: the best within each budget"
    )
    init: Literal["scratch", "supernet", "pretrained"] = option(
        "scratch",
        help="weights that pretraining starts from; supernet: those that the search saw; pretrained: those that the "
        "network brings",
    )
    teacher: Literal["dense", "baseline"] | None = option(
        None,
        help="which whole network models learn from, too; dense: with the weights that it brings; baseline: as this "
        "stage trains it, before all others",
    )
    hold_out: bool = option(False, help="leave images that were held out for the search out of training, too")
    momentum: float = option(0.9, low=0.0, high=1.0, help="of SGD")
    nesterov: bool = option(True, help="momentum that looks ahead")
    ema: float = option(
        0.0,
        low=0.0,
        high=0.999999,
        help="of fine-tuning: decay per step of an average of the weights that is handed over in their place; 0: none",
    )
    label_smoothing: float = option(
        0.0, low=0.0, high=1.0, help="share of the target spread over all classes"
    )
    lr_warmup_epochs: float = option(0.0, low=0.0, help="of pretraining: the learning rate rises from 0")
    crop_padding: int = option(0, low=0, high=64, help="pixels of padding before a random crop")
    flip: bool = option(False, help="mirror half of the images")
    mixup: float = option(
        0.0,
        low=0.0,
        high=10.0,
        help="how much pairs of images are mixed, as the alpha of a Beta distribution; 0: none",
    )
    calibration_images: int = option(
        1280, low=2, help="training images that set batch-norm statistics when weights were pruned"
    )
    precision: Literal["fp32", "bf16", "auto"] = option(
        "fp32", help="auto: bf16 where the processor has instructions for it"
    )
    channels_last: bool = option(True, help="lay images out as NHWC, which is faster on CPUs")
    pretrain: PhaseOptions = option(PhaseOptions())
    admm: AdmmOptions = option(AdmmOptions())
    finetune: PhaseOptions = option(PhaseOptions())
    distillation: DistillationOptions = option(DistillationOptions())

    def __post_init__(self) -> None:
        if self.teacher is None and self.distillation != DistillationOptions():
            raise RecipeError(
                'distillation without a teacher would do nothing; give teacher = "dense" or "baseline"'
            )

    @property
    def arithmetic(self) -> Arithmetic:
        """How the models are computed while they are trained."""
        return Arithmetic(self.precision, self.channels_last)

    @property
    def augmentation(self) -> Augmentation:
        """Random changes of the training images."""
        return Augmentation(self.crop_padding, self.flip, self.mixup)


@dataclass(frozen=True, slots=True)
class Phases:
    """The three phases of every model, dense ones included."""

    pretrain: TrainingOptions
    admm: TrainingOptions
    finetune: TrainingOptions
    rho: float

    @property
    def epochs(self) -> int:
        """Epochs of every model."""
        return self.pretrain.epochs + self.admm.epochs + self.finetune.epochs


_ADMM = TrainingOptions(epochs=60, batch_size=512, lr=0.005, annealing="constant", weight_decay=1e-4)
_FINETUNE = TrainingOptions(epochs=60, batch_size=512, lr=0.005)
_RESNET18 = (TrainingOptions(epochs=120, batch_size=512, lr=0.256, weight_decay=1e-4), _ADMM, _FINETUNE)
_MOBILE_ADMM = replace(_ADMM, weight_decay=4e-5)

PAPER: Mapping[str, tuple[TrainingOptions, TrainingOptions, TrainingOptions]] = {
    "resnet18": _RESNET18,
    "mobilenet_v1": (
        TrainingOptions(epochs=120, batch_size=512, lr=0.512, weight_decay=4e-5), _MOBILE_ADMM, _FINETUNE,
    ),
    "mobilenet_v2": (
        TrainingOptions(epochs=250, batch_size=512, lr=0.256, weight_decay=4e-5), _MOBILE_ADMM, _FINETUNE,
    ),
}  # fmt: skip
"""Pretraining, ADMM and fine-tuning by backbone (the paper's table of retraining hyper-parameters)."""


def phases(options: RetrainOptions, backbone: str) -> Phases:
    """The recipe's values over the paper's; a backbone that the paper does not have takes ResNet-18's."""
    given: tuple[PhaseOptions, ...] = (options.pretrain, options.admm, options.finetune)
    common = {key: getattr(options, key) for key in ("momentum", "nesterov", "label_smoothing")}
    pretrain, admm, finetune = (
        replace(default, **_given(table), **common)
        for default, table in zip(PAPER.get(backbone, _RESNET18), given, strict=True)
    )
    pretrain = replace(pretrain, lr_warmup_epochs=options.lr_warmup_epochs)
    finetune = replace(finetune, ema=options.ema)
    return Phases(pretrain, admm, finetune, options.admm.rho)


def shortened(phases: Phases, epochs: int) -> Phases:
    """The same phases within ``epochs`` in all, in their proportions; as they are where they are no longer."""
    if phases.epochs <= epochs:
        return phases
    scale, given = epochs / phases.epochs, (phases.pretrain, phases.admm, phases.finetune)
    # Ends of phases are rounded, so that the sum holds.
    ends = [round(sum(one.epochs for one in given[:count]) * scale) for count in range(4)]
    pretrain, admm, finetune = (
        replace(one, epochs=end - start, lr_warmup_epochs=one.lr_warmup_epochs * scale)
        for one, start, end in zip(given, ends, ends[1:], strict=False)
    )
    return Phases(pretrain, admm, finetune, phases.rho)


def _given(table: PhaseOptions) -> dict[str, Any]:
    found = {f.name: getattr(table, f.name) for f in fields(PhaseOptions)}
    return {name: value for name, value in found.items() if value is not None}
