"""CIFAR-10 (Krizhevsky 2009): 32 x 32 colour images, from its binary files or as an image folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.datasets.image_folder import ImageFolder, ImageFolderOptions
from jcw_core.datasets.memory import MemoryDataset, check_labels
from jcw_core.errors import DataError
from jcw_core.options import option
from jcw_core.protocols import Dataset

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)

_SHAPE = (3, 32, 32)
_RECORD = 1 + 3 * 32 * 32
_LIMIT = 100_000 * _RECORD
_FILES = {"train": "data_batch_*.bin", "test": "test_batch.bin"}


@dataclass(frozen=True, slots=True)
class Cifar10Options:
    """Keys of ``[data]``."""

    path: Path = option(
        help="folder of the binary version's .bin files, or an image folder, or a .zip of one"
    )


class Cifar10:
    """The dataset ``cifar10``. Its Python version, which is pickled, is not read."""

    name = "cifar10"
    options = Cifar10Options

    def open(self, split: str, options: Cifar10Options) -> Dataset:
        """Open ``"train"`` or ``"test"``. Raises ``DataError`` for a file that is missing or damaged."""
        if any(options.path.glob("*.bin")):
            return _read_binary(options.path, split)
        images = ImageFolder().open(
            split,
            ImageFolderOptions(path=options.path, size=32, resize=32, mean=MEAN, std=STD, augment=False),
        )
        if tuple(images.classes) != CLASSES:
            raise DataError(
                f"{options.path}: its folders are {', '.join(images.classes)[:80]}, expected CIFAR-10's"
            )
        return images


def _read_binary(folder: Path, split: str) -> MemoryDataset:
    paths = sorted(folder.glob(_FILES[split]))
    if not paths:
        raise DataError(f"{folder}: no {_FILES[split]}; expected the binary version of CIFAR-10")
    records = [_records(path) for path in paths]
    labels = [check_labels(found[:, 0], CLASSES, path) for found, path in zip(records, paths, strict=True)]
    pixels = np.concatenate([found[:, 1:] for found in records])
    return MemoryDataset(CLASSES, MEAN, STD, pixels.reshape(-1, *_SHAPE), np.concatenate(labels))


def _records(path: Path) -> NDArray[np.uint8]:
    """Label and pixels of each image, (n, 3073)."""
    try:
        size = path.stat().st_size
        if size == 0 or size % _RECORD or size > _LIMIT:
            raise DataError(
                f"{path}: {size} bytes, expected a multiple of {_RECORD} up to {_LIMIT}; fetch it again"
            )
        values = np.fromfile(path, dtype=np.uint8, count=size)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    return values[: len(values) // _RECORD * _RECORD].reshape(-1, _RECORD)
