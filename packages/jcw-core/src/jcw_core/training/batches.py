"""Batches of a dataset as torch tensors: shuffled and augmented for training, fixed for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from math import ceil, prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jcw_core.datasets.split import normalise
from jcw_core.errors import DataError
from jcw_core.protocols import Augmenting, Dataset
from jcw_core.ranks import Ranks
from jcw_core.training.ahead import ahead
from jcw_core.training.options import Arithmetic, Augmentation

IN_MEMORY = 2 * 2**30
"""Bytes of pixels, or of normalised images, up to which a dataset is kept in memory."""

EVALUATED = 128
"""Images at a time in calibration and evaluation; larger batches fall out of the cache."""

Batch = tuple[Tensor, Tensor]
"""Normalised images (n, channels, height, width), and their classes (n,), or what they have of each (n, classes)."""


class TrainingImages:
    """Training images in random order, with random changes.

    Args:
        dataset: where they come from; read once when its pixels fit in memory and it makes no changes of its own.
        augmentation: changes beside those that the dataset makes.
        arithmetic: memory layout and device of the batches.
        workers: threads that make batches ahead of what takes them; 0 to make each when it is wanted. Batches are
            the same for any number.
    """

    def __init__(
        self, dataset: Dataset, augmentation: Augmentation, arithmetic: Arithmetic, workers: int = 0
    ) -> None:
        self._dataset = dataset
        self._augmentation = augmentation
        self._arithmetic = arithmetic
        self._workers = workers
        self._augmented = dataset.augmented if isinstance(dataset, Augmenting) else None
        fits = self._augmented is None and len(dataset) * prod(dataset.image_shape) <= IN_MEMORY
        self._pixels = dataset.images(np.arange(len(dataset))) if fits else None
        self._labels = dataset.labels

    def steps(self, batch_size: int) -> int:
        """Batches in an epoch: whole ones only, because a small batch has poor batch-norm statistics.

        Raises:
            DataError: fewer images than one batch.
        """
        if len(self._labels) < batch_size:
            raise DataError(
                f"a batch of {batch_size} needs more than the {len(self._labels)} training images; lower batch_size"
            )
        return len(self._labels) // batch_size

    def epoch(
        self, batch_size: int, rng: np.random.Generator, ranks: Ranks | None = None, first: int = 0
    ) -> Iterator[Batch]:
        """The batches of one epoch; everything random comes from ``rng``.

        Args:
            batch_size: images of a batch, in all processes together.
            rng: the same in all of them.
            ranks: the processes that share each batch, of which this one gets its part; parts differ by one image at
                most, and together are the batch that one process would get.
            first: the batch to begin with.

        Raises:
            DataError: fewer images than a batch, or fewer images in a batch than processes.
        """
        ranks = ranks or Ranks()
        order, steps = rng.permutation(len(self._labels)), self.steps(batch_size)
        if batch_size < ranks.size:
            raise DataError(
                f"a batch of {batch_size} gives {ranks.size} processes less than an image each; raise batch_size, or "
                "start fewer"
            )
        parts = order[: steps * batch_size].reshape(steps, batch_size)
        own = np.array_split(np.arange(batch_size), ranks.size)[ranks.rank]
        # A generator for each batch, so that it does not matter which is made first.
        drawn = islice(zip(parts, rng.spawn(steps), strict=True), first, None)
        return ahead(partial(self._batch, own), drawn, self._workers)

    def _batch(self, own: NDArray[np.intp], drawn: tuple[NDArray[np.intp], np.random.Generator]) -> Batch:
        """The images ``own``, by their places in the batch."""
        batch, rng = drawn
        device, alpha = self._arithmetic.device, self._augmentation.mixup
        if not alpha:
            labels = torch.from_numpy(self._labels[batch[own]]).to(device)
            return self._changed(own, batch, rng), labels
        share, others = rng.beta(alpha, alpha), rng.permutation(len(batch))[own]
        # What the images of this process are mixed with may be in the parts of others.
        places = np.union1d(own, others)
        one, other = (torch.from_numpy(np.searchsorted(places, which)).to(device) for which in (own, others))
        pairs = self._changed(places, batch, rng), self._shares(batch[places])
        images, shares = (torch.lerp(values[other], values[one], share) for values in pairs)
        return laid_out(images, self._arithmetic), shares

    def _changed(self, places: NDArray[np.intp], batch: NDArray[np.intp], rng: np.random.Generator) -> Tensor:
        """The images of some places in a batch, each changed at random as it would be with any others."""
        indices = batch[places]
        if self._augmented is not None:
            generators = rng.spawn(len(batch))
            changed = [self._augmented(batch[i : i + 1], generators[i]) for i in places]
            pixels = np.concatenate(changed)
        else:
            pixels = self._dataset.images(indices) if self._pixels is None else self._pixels[indices]
        pixels = augment(pixels, self._augmentation, rng, places, len(batch))
        return to_tensor(pixels, self._dataset, self._arithmetic)

    def _shares(self, indices: NDArray[np.intp]) -> Tensor:
        """What some images have of each class, (n, classes): all of one, or nothing of any where they have no labels."""
        shares = self._labels[indices, None] == np.arange(len(self._dataset.classes))
        return torch.from_numpy(shares.astype(np.float32)).to(self._arithmetic.device)


def augment(
    pixels: NDArray[np.uint8],
    augmentation: Augmentation,
    rng: np.random.Generator,
    places: NDArray[np.intp] | None = None,
    drawn: int | None = None,
) -> NDArray[np.uint8]:
    """Crop at random after padding, and mirror half of the images.

    Args:
        pixels: (n, channels, height, width).
        augmentation: what is changed.
        rng: what is random comes from it.
        places: (n,) where in a batch the images stand; 0 to n - 1 by default.
        drawn: images in that batch, for all of which numbers are drawn; n by default.

    Returns:
        an array of the same shape.
    """
    padding = augmentation.crop_padding
    if not padding and not augmentation.flip:
        return pixels
    count, _, height, width = pixels.shape
    drawn, own = count if drawn is None else drawn, slice(None) if places is None else places
    top, left = rng.integers(0, 2 * padding + 1, (2, drawn, 1))[:, own]
    rows, columns = top + np.arange(height), left + np.arange(width)
    if augmentation.flip:
        columns = np.where(rng.random((drawn, 1))[own] < 0.5, columns[:, ::-1], columns)
    padded = np.pad(pixels, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    image = np.arange(count)[:, None, None]
    # The channel axis moves last because the indices around it are arrays.
    return padded[image, :, rows[:, :, None], columns[:, None, :]].transpose(0, 3, 1, 2)


def to_tensor(pixels: NDArray[np.uint8], dataset: Dataset, arithmetic: Arithmetic) -> Tensor:
    """Normalise (n, channels, height, width) pixels and lay them out for the arithmetic, on its device."""
    images = torch.from_numpy(np.ascontiguousarray(normalise(pixels, dataset))).to(arithmetic.device)
    return laid_out(images, arithmetic)


def laid_out(images: Tensor, arithmetic: Arithmetic) -> Tensor:
    """Images (n, channels, height, width) in the memory layout of the arithmetic."""
    if not arithmetic.channels_last:
        return images.contiguous()
    _, channels, height, width = images.shape
    strides = (channels * height * width, 1, width * channels, channels)
    # Strides written out, because torch leaves those of images of one channel as they are, and every
    # later layer takes over the layout of its input.
    return images.contiguous(memory_format=torch.channels_last).as_strided(images.shape, strides)


class FixedImages(Sequence[Batch]):
    """Some images of a dataset in batches, unchanged; kept normalised when they fit in memory.

    Args:
        dataset: where they come from.
        indices: which, (n,).
        batch_size: images per batch at most. Batches differ by one image at most, because a last one of
            a single image would have no variance.
        arithmetic: memory layout and device.
    """

    def __init__(
        self, dataset: Dataset, indices: NDArray[np.intp], batch_size: int, arithmetic: Arithmetic
    ) -> None:
        self._dataset = dataset
        self._arithmetic = arithmetic
        self._chunks = np.array_split(indices, ceil(len(indices) / batch_size))
        fits = 4 * len(indices) * prod(dataset.image_shape) <= IN_MEMORY
        self._kept = [self._load(chunk) for chunk in self._chunks] if fits else None

    def _load(self, chunk: NDArray[np.intp]) -> Batch:
        images = to_tensor(self._dataset.images(chunk), self._dataset, self._arithmetic)
        return images, torch.from_numpy(self._dataset.labels[chunk]).to(self._arithmetic.device)

    def __len__(self) -> int:
        return len(self._chunks)

    def __getitem__(self, index: int) -> Batch:  # type: ignore[override]
        return self._load(self._chunks[index]) if self._kept is None else self._kept[index]

    @classmethod
    def drawn(
        cls, dataset: Dataset, count: int, rng: np.random.Generator, arithmetic: Arithmetic
    ) -> FixedImages:
        """``count`` images at random, all of them where there are fewer."""
        return cls(dataset, rng.permutation(len(dataset))[:count], EVALUATED, arithmetic)
