"""Images from files beside images from memory, for ``training.py``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from harness import Row
from PIL import Image
from pruned_models import BACKBONES
from training_steps import RATE, descend, ratios

from jcw_core.datasets.image_folder import ImageFolder, ImageFolderOptions
from jcw_core.training.batches import Batch, TrainingImages
from jcw_core.training.module import Slimmable
from jcw_core.training.optimizer import sgd
from jcw_core.training.options import Arithmetic, Augmentation


def files(args: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """Images a second from files, with each number of workers, and from memory."""
    name, width, size, count = args.files
    network = BACKBONES[name].build(num_classes=10, width=width, input_size=size)
    _grow(folder, 3 * size // 2, args.epoch * count)
    options = ImageFolderOptions(path=folder, size=size)
    dataset, arithmetic = ImageFolder().open("train", options), Arithmetic("fp32", channels_last=True)
    module = Slimmable(network, np.random.default_rng(0))
    optimizer = sgd(module, RATE)
    memory = list(TrainingImages(dataset, Augmentation(), arithmetic).epoch(count, np.random.default_rng(0)))
    for workers in args.workers:
        images, taken = TrainingImages(dataset, Augmentation(), arithmetic, workers), []
        for number in range(args.rounds + 1):
            epochs = (iter(memory), images.epoch(count, np.random.default_rng(number)))
            taken.append([_epoch(module, optimizer, batches, arithmetic) for batches in epochs])
        yield {
            "kind": "files", "network": name, "width": width, "pixels": size, "images": count, "workers": workers,
            **ratios("memory_ms", "files_ms", 1e3 * np.array(taken[1:])),
        }  # fmt: skip


def _grow(folder: Path, size: int, count: int) -> None:
    """Smooth pictures as JPEG files of one class, laid out for ``image_folder``."""
    rng = np.random.default_rng(0)
    (folder / "train" / "one").mkdir(parents=True)
    for number in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))
        coarse.resize((size, size), Image.Resampling.BICUBIC).save(
            folder / "train" / "one" / f"{number}.jpg", quality=90
        )


def _epoch(
    module: Slimmable, optimizer: torch.optim.Optimizer, batches: Iterator[Batch], arithmetic: Arithmetic
) -> float:
    began = time.perf_counter()
    for images, labels in batches:
        optimizer.zero_grad(set_to_none=False)
        descend(partial(module, images), labels, arithmetic)
        optimizer.step()
    return time.perf_counter() - began
