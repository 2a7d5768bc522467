"""Parts of a dataset: images held out for the search, without copying them; and normalised pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DataError
from jcw_core.protocols import Augmented, Augmenting, Dataset, Normalised


@dataclass(frozen=True)
class Subset:
    """Some images of another dataset.

    Args:
        whole: the dataset.
        indices: which of its images, (n,).
    """

    whole: Dataset
    indices: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def classes(self) -> Sequence[str]:
        """Names of all classes of the whole."""
        return self.whole.classes

    @property
    def mean(self) -> Sequence[float]:
        """Per-channel mean of the whole."""
        return self.whole.mean

    @property
    def std(self) -> Sequence[float]:
        """Per-channel standard deviation of the whole."""
        return self.whole.std

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of every image."""
        return self.whole.image_shape

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class of every image, (n,)."""
        return self.whole.labels[self.indices]

    def images(self, indices: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Pixels of some images, (len(indices), channels, height, width)."""
        return self.whole.images(self.indices[indices])

    @property
    def augmented(self) -> Augmented | None:
        """Random changes of the whole's images, None where it has none."""
        found = self.whole.augmented if isinstance(self.whole, Augmenting) else None
        return None if found is None else lambda indices, rng: found(self.indices[indices], rng)


def some(dataset: Dataset, classes: int | None, per_class: int | None, rng: np.random.Generator) -> Dataset:
    """Images of some classes, and some of each, at random; the dataset itself where neither is limited.

    Args:
        dataset: labelled.
        classes: how many of those that have images; all where it is None or more.
        per_class: most images of each; all where it is None.
    """
    if classes is None and per_class is None:
        return dataset
    labels = dataset.labels
    taken = rng.permutation(np.unique(labels))[:classes]
    each = [rng.permutation(np.flatnonzero(labels == label))[:per_class] for label in np.sort(taken)]
    return Subset(dataset, np.sort(np.concatenate(each)))


def outside(dataset: Dataset, held: Subset) -> Subset:
    """The images of a dataset that are not among those of ``held``, a subset of it or of a subset."""
    indices, whole = held.indices, held.whole
    while whole is not dataset:
        assert isinstance(whole, Subset)
        indices, whole = whole.indices[indices], whole.whole
    return Subset(dataset, np.setdiff1d(np.arange(len(dataset)), indices))


def hold_out(dataset: Dataset, count: int, rng: np.random.Generator) -> tuple[Subset, Subset]:
    """Split off ``count`` images with the classes in their proportions.

    Returns:
        the rest and the ``count`` images, each in rising order of index.

    Raises:
        DataError: fewer images than ``count`` + one per class that has any, or than ``count`` + 1 where each is the
            only one of its class.
    """
    labels = dataset.labels
    classes, counts = np.unique(labels, return_counts=True)
    # Where no class has two images, none can be represented on both sides.
    fewest = len(classes) if counts.max(initial=0) > 1 else 1
    if len(labels) < count + fewest:
        raise DataError(
            f"cannot hold {count} images out of {len(labels)} with {len(classes)} classes; lower data.holdout"
        )
    return _stratified(dataset, count, rng)


def divide(dataset: Dataset, share: float, rng: np.random.Generator) -> tuple[Subset, Subset]:
    """Split off a share of the images with the classes in their proportions; each part has one at least.

    Args:
        dataset: two images or more.
        share: of the second part, between 0 and 1.
    """
    count = min(max(round(share * len(dataset)), 1), len(dataset) - 1)
    return _stratified(dataset, count, rng)


def _stratified(dataset: Dataset, count: int, rng: np.random.Generator) -> tuple[Subset, Subset]:
    labels = dataset.labels
    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    # Every k-th image of the list sorted by class: each class gives its share, to within one image.
    taken = by_class[(np.arange(count) * len(labels)) // count]
    return Subset(dataset, np.setdiff1d(by_class, taken)), Subset(dataset, np.sort(taken))


def normalise(images: NDArray[np.uint8], dataset: Normalised) -> NDArray[np.float32]:
    """Pixels to what networks are trained on: (pixel / 255 - mean) / std, float32, shape unchanged."""
    mean = np.asarray(dataset.mean, dtype=np.float32)[:, None, None]
    std = np.asarray(dataset.std, dtype=np.float32)[:, None, None]
    scaled: NDArray[np.float32] = (images.astype(np.float32) / np.float32(255) - mean) / std
    return scaled
