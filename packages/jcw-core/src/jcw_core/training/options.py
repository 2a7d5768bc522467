"""Options that every training has: SGD, augmentation, precision. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """One stretch of training by SGD.

    Args:
        epochs: passes over the training images.
        batch_size: images per step; the last, smaller batch of an epoch is left out.
        lr: highest learning rate.
        annealing: how ``lr`` falls, step by step; ``"cosine"`` ends at 0.
        weight_decay: on weights; not on biases and batch-norm parameters.
        nesterov: momentum looks ahead by one step (Sutskever et al. 2013).
        label_smoothing: share of the target that is spread over all classes.
        lr_warmup_epochs: epochs over which the learning rate rises from 0.
        ema: decay per step of an exponential moving average of the weights, which replaces them at
            the end; 0 for none. Batch-norm statistics are not averaged: calibrate them afterwards.
    """

    epochs: int
    batch_size: int
    lr: float
    annealing: Literal["cosine", "constant"] = "cosine"
    weight_decay: float = 0.0
    momentum: float = 0.9
    nesterov: bool = True
    label_smoothing: float = 0.0
    lr_warmup_epochs: float = 0.0
    ema: float = 0.0


@dataclass(frozen=True, slots=True)
class Augmentation:
    """Random changes of training images.

    Args:
        crop_padding: pixels of black around an image before as much as it had is cut out of it.
        flip: mirror half of the images.
        mixup: alpha of the Beta distribution from which a batch's share is drawn, by which each of its images is
            mixed with another one, and their labels alike (Zhang et al. 2018); 0 for none.
    """

    crop_padding: int = 0
    flip: bool = False
    mixup: float = 0.0


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How a module computes.

    Args:
        precision: ``"bf16"`` runs convolutions in bfloat16, weights stay float32; ``"auto"`` does so on
            processors that have instructions for it, because elsewhere it is many times slower.
        channels_last: keep images as NHWC in memory.
        device: of torch, where networks and batches are.
    """

    precision: Literal["fp32", "bf16", "auto"] = "fp32"
    channels_last: bool = False
    device: str = "cpu"
