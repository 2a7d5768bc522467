"""What a dataset is: labelled images by index, and the plugin that opens them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class Dataset(Protocol):
    """Labelled images in memory or on disk, addressed by index."""

    @property
    def classes(self) -> Sequence[str]:
        """Names of the classes, in the order of their labels."""

    @property
    def mean(self) -> Sequence[float]:
        """Per-channel mean of the pixels in [0, 1]."""

    @property
    def std(self) -> Sequence[float]:
        """Per-channel standard deviation of the pixels in [0, 1]."""

    def __len__(self) -> int: ...

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of every image."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class of every image, (n,); -1 in all of them where none has one."""

    def images(self, indices: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Pixels of some images, (len(indices), channels, height, width).

        Raises:
            DataError: a file that is missing or damaged.
        """


class Normalised(Protocol):
    """What says how pixels are normalised: a ``Dataset`` does, and what is kept of one with a model."""

    @property
    def mean(self) -> Sequence[float]:
        """Per channel, of pixels in [0, 1]."""

    @property
    def std(self) -> Sequence[float]:
        """Per channel, of pixels in [0, 1]."""


@runtime_checkable
class Resized(Protocol):
    """What a ``Dataset`` of image files may have besides."""

    @property
    def resize(self) -> int | None:
        """How high images are before the middle is cut out, of a square the short side; None for the square's own."""


Augmented = Callable[[NDArray[np.intp], np.random.Generator], NDArray[np.uint8]]
"""Pixels of some images as ``Dataset.images`` gives them, each changed at random. Called by several threads at once."""


@runtime_checkable
class Augmenting(Protocol):
    """What a ``Dataset`` may have besides: random changes of its own, which training asks for."""

    @property
    def augmented(self) -> Augmented | None:
        """The function that makes them; None where there are none."""


class DatasetPlugin(Protocol):
    """A kind of dataset; ``options`` holds the keys of ``[data]`` beside ``name``."""

    @property
    def name(self) -> str:
        """What recipes call it."""

    @property
    def options(self) -> type[Any]:
        """Frozen dataclass of its recipe keys, see ``jcw_core.options``."""

    def open(self, split: str, options: Any) -> Dataset:
        """Open ``"train"`` or ``"test"``, which a run does before its first stage. Raises ``DataError``."""
