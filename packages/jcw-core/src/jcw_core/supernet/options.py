"""The recipe's ``[supernet]`` table. Needs no torch, so that a recipe can be checked anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jcw_core.errors import RecipeError
from jcw_core.options import option
from jcw_core.training.options import Arithmetic, Augmentation, TrainingOptions

if TYPE_CHECKING:
    from jcw_core.recipe.recipe import Recipe


@dataclass(frozen=True, slots=True)
class SupernetOptions:
    """``[supernet]``: the network whose weights all architectures share during the search."""

    mode: Literal["continuous", "per-generation", "post-training"] = option(
        "continuous",
        help="trained once before the search; again in each generation on its parents and children as in the paper; or "
        "not at all: the weights that the network brings are pruned and refitted, layer by layer",
    )
    init: Literal["scratch", "pretrained"] = option(
        "scratch", help="what training begins with; pretrained: the weights that the network brings"
    )
    importance: str = option(
        "obs", help="name of a registered criterion, by which channels of trained weights are ordered first"
    )
    rearrange: bool = option(
        False,
        help="post-training: channels that want the same inputs share weight groups, near their place in order",
    )
    epochs: int = option(30, low=1, help="epochs in all")
    warmup_epochs: int = option(
        10, low=0, help="of these, epochs on random architectures; all of them when mode is continuous"
    )
    draws: Literal["plain", "sandwich"] = option(
        "plain",
        help="plain: one random sub-network a step; sandwich: the largest, which teaches the smallest and two random "
        "ones, in three to four times the time",
    )
    channel_epochs: int = option(
        0,
        low=0,
        help="first epochs in which only channels are pruned, in the paper's code as many as warmup_epochs",
    )
    batch_size: int = option(256, low=2, help="images per step")
    lr: float = option(0.1, low=0.0, help="highest learning rate")
    annealing: Literal["cosine", "constant"] = option("cosine", help="how lr falls; cosine ends at 0")
    lr_warmup_epochs: float = option(0.0, low=0.0, help="epochs over which the learning rate rises from 0")
    weight_decay: float = option(4e-5, low=0.0, help="on weights; not on biases and batch norm")
    momentum: float = option(0.9, low=0.0, high=1.0, help="of SGD")
    nesterov: bool = option(True, help="momentum that looks ahead")
    ema: float = option(
        0.0,
        low=0.0,
        high=0.999999,
        help="decay per step of an average of the weights that replaces them; 0: none",
    )
    label_smoothing: float = option(
        0.0, low=0.0, high=1.0, help="share of the target spread over all classes"
    )
    crop_padding: int = option(0, low=0, high=64, help="pixels of padding before a random crop")
    flip: bool = option(False, help="mirror half of the images")
    mixup: float = option(
        0.0,
        low=0.0,
        high=10.0,
        help="how much pairs of images are mixed, as the alpha of a Beta distribution; 0: none",
    )
    calibration_images: int = option(1280, low=2, help="training images that set batch-norm statistics")
    search_images: int | None = option(
        None, low=2, help="post-training: how many of these do so while the search estimates; all by default"
    )
    precision: Literal["fp32", "bf16", "auto"] = option(
        "fp32", help="auto: bf16 where the processor has instructions for it"
    )
    channels_last: bool = option(True, help="lay images out as NHWC, which is faster on CPUs")

    def __post_init__(self) -> None:
        if self.rearrange and self.mode != "post-training":
            raise RecipeError('rearrange does nothing where weights are trained; give mode = "post-training"')

    @property
    def arithmetic(self) -> Arithmetic:
        """How the supernet computes."""
        return Arithmetic(self.precision, self.channels_last)

    @property
    def augmentation(self) -> Augmentation:
        """Random changes of its training images."""
        return Augmentation(self.crop_padding, self.flip, self.mixup)

    def training(self, epochs: int) -> TrainingOptions:
        """A stretch of ``epochs`` with these options."""
        return TrainingOptions(
            epochs=epochs,
            batch_size=self.batch_size,
            lr=self.lr,
            annealing=self.annealing,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            nesterov=self.nesterov,
            label_smoothing=self.label_smoothing,
            lr_warmup_epochs=self.lr_warmup_epochs,
            ema=self.ema,
        )

    @property
    def orders_channels(self) -> bool:
        """Whether channels are ordered first, which takes trained weights."""
        return self.mode == "post-training" or self.init == "pretrained"

    @property
    def shared_epochs(self) -> int:
        """Epochs on random architectures, before the search."""
        if self.mode == "post-training":
            return 0
        return self.epochs if self.mode == "continuous" else min(self.warmup_epochs, self.epochs)


RANDOM_OF_SANDWICH = 2
"""Random sub-networks of a sandwich's step, beside the largest and the smallest (Yu and Huang 2019)."""

DRAWN = 0.6
"""What a random sub-network takes of the time of the whole network, to estimate how long work takes."""

VARIANT = "search.variant"
"""The key of a recipe that says what the search varies; the stage that owns its table defines it."""


def search_variant(recipe: Recipe) -> str:
    """What the search varies, ``"joint"`` where no installed stage says so."""
    return str(recipe.table(VARIANT)) if has_variant(recipe) else "joint"


def has_variant(recipe: Recipe) -> bool:
    """True when the stage that owns ``[search]`` has the key ``variant``."""
    table, _, key = VARIANT.partition(".")
    return hasattr(recipe.stages.get(table), key)
