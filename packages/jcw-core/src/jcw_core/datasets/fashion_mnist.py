"""Fashion-MNIST (Xiao et al. 2017): 28 x 28 grey images of clothes, in idx files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jcw_core.datasets.idx import read_idx
from jcw_core.datasets.memory import MemoryDataset, check_labels
from jcw_core.errors import DataError
from jcw_core.options import option

CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
PREFIXES = {"train": "train", "test": "t10k"}


@dataclass(frozen=True, slots=True)
class FashionMnistOptions:
    """Keys of ``[data]``."""

    path: Path = option(help="folder of the four idx files, gzipped or not")


class FashionMnist:
    """The dataset ``fashion_mnist``: the whole of it, or any subset in the same four files."""

    name = "fashion_mnist"
    options = FashionMnistOptions

    def open(self, split: str, options: FashionMnistOptions) -> MemoryDataset:
        """Read ``"train"`` or ``"test"``. Raises ``DataError`` for a file that is missing or damaged."""
        prefix = PREFIXES[split]
        pixels = read_idx(options.path, f"{prefix}-images-idx3-ubyte", (28, 28))
        labels = read_idx(options.path, f"{prefix}-labels-idx1-ubyte", ())
        if len(pixels) != len(labels):
            raise DataError(
                f"{options.path}: {len(pixels)} {split} images but {len(labels)} labels; fetch it again"
            )
        return MemoryDataset(
            classes=CLASSES,
            mean=(0.2860,),
            std=(0.3530,),
            pixels=pixels[:, None],
            labels=check_labels(labels, CLASSES, options.path / f"{prefix}-labels-idx1-ubyte"),
        )
