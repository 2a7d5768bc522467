"""``MemoryDataset``: images that are held as one array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DataError
from jcw_core.shown import count_of


@dataclass(frozen=True, slots=True)
class MemoryDataset:
    """A ``jcw_core.protocols.Dataset`` in memory.

    Args:
        classes: their names.
        mean, std: per channel, of pixels in [0, 1].
        pixels: (n, channels, height, width), uint8.
        labels: (n,), int64, each an index into ``classes``; or all -1, where images have no labels.
        resize: how high they were made before the middle was cut out; None where it was not.
    """

    classes: Sequence[str]
    mean: Sequence[float]
    std: Sequence[float]
    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]
    resize: int | None = None

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.image_shape))
        return f"<MemoryDataset: {count_of(len(self), 'image')} of {shape}, {len(self.classes)} classes>"

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of every image."""
        _, channels, height, width = self.pixels.shape
        return channels, height, width

    def images(self, indices: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Pixels of some images, (len(indices), channels, height, width)."""
        return self.pixels[indices]


def check_labels(labels: NDArray[np.uint8], classes: Sequence[str], path: Path) -> NDArray[np.int64]:
    """Labels as int64.

    Raises:
        DataError: one of them is not an index into ``classes``.
    """
    wrong = np.flatnonzero(labels >= len(classes))
    if wrong.size:
        raise DataError(
            f"{path}: label {labels[wrong[0]]} of image {wrong[0]} is out of range; "
            f"expected 0 to {len(classes) - 1}"
        )
    return labels.astype(np.int64)
