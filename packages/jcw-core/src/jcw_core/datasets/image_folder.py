"""The dataset ``image_folder``: labelled image files in a folder or a .zip, decoded when first asked for."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.datasets.arrangement import arrange
from jcw_core.datasets.augmentation import RandomDecoder
from jcw_core.datasets.decoding import Decoder
from jcw_core.datasets.image_options import ImageOptions, TrainingImageOptions
from jcw_core.datasets.image_source import LAYOUT, ImageFile, Source, open_source
from jcw_core.errors import DataError, RecipeError
from jcw_core.options import option
from jcw_core.protocols import Augmented

TRAIN, TEST = ("train",), ("test", "val", "validation")
_SPLITS = {"train": TRAIN, "test": TEST}
"""Names of the folder that holds a split; the first that is there counts."""
_SLICE = re.compile(r"-?\d*:-?\d*(:[1-9]\d*)?")


@dataclass(frozen=True, slots=True)
class ImageFolderOptions(TrainingImageOptions):
    """Keys of ``[data]``."""

    path: Path = option(help="folder or .zip, laid out split/class/file or class/file")
    train_split: str = option("", help="folder of the images to train on; train by default")
    test_split: str = option("", help="folder of the images to score; test, val or validation by default")
    train_classes: str = option(
        ":", help='classes to train on, as a slice of their sorted names: "::2" is every other one'
    )
    test_classes: str = option(":", help="classes to score; each keeps its place in the network's output")
    test_share: float = option(
        0.2, low=0.01, high=0.9, help="of each class to score on, where images lie as class/file"
    )

    def __post_init__(self) -> None:
        ImageOptions.__post_init__(self)
        for key in ("train_classes", "test_classes"):
            if not _SLICE.fullmatch(getattr(self, key)):
                raise RecipeError(
                    f'{key} is {getattr(self, key)!r:.40}; expected START:STOP:STEP, e.g. "::2" for every other class'
                )


class ImageFiles:
    """A ``jcw_core.protocols.Dataset`` of files.

    Args:
        source: where they lie.
        files: those of the split.
        classes: names; their order gives the labels.
        options: as in the recipe.
    """

    def __init__(
        self,
        source: Source,
        files: Sequence[ImageFile],
        classes: Sequence[str],
        options: TrainingImageOptions,
    ) -> None:
        self.classes = classes
        self.mean, self.std = options.normalisation
        index = {name: label for label, name in enumerate(classes)}
        self.labels = np.array([index[file.label] for file in files], dtype=np.int64)
        self.image_shape = (options.channels, options.size, options.size)
        self.resize = options.resize
        self._source, self._files, self._path = source, files, options.path
        self._decode = Decoder(options.size, options.resize or options.size, options.channels)
        self._change = RandomDecoder(options.size, options.channels, options.crop_area, options.jitter)
        self._changes = options.augment
        kept = min(len(files), options.cache_mb * 2**20 // (options.channels * options.size**2))
        self._cache = np.empty((kept, *self.image_shape), dtype=np.uint8)
        self._cached = np.zeros(len(files), dtype=bool)

    def __len__(self) -> int:
        return len(self._files)

    def images(self, indices: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Pixels of some images, (len(indices), channels, size, size)."""
        pixels = np.empty((len(indices), *self.image_shape), dtype=np.uint8)
        for position, index in enumerate(indices):
            pixels[position] = self._cache[index] if self._cached[index] else self._load(int(index))
        return pixels

    @property
    def augmented(self) -> Augmented | None:
        """Some images as they are trained on."""
        return self._augmented if self._changes else None

    def _augmented(self, indices: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.uint8]:
        pixels = np.empty((len(indices), *self.image_shape), dtype=np.uint8)
        for position, index in enumerate(indices):
            name = self._files[index].name
            pixels[position] = self._change(self._source.read(name), f"{self._path}/{name}", rng)
        return pixels

    def _load(self, index: int) -> NDArray[np.uint8]:
        name = self._files[index].name
        pixels = self._decode(self._source.read(name), f"{self._path}/{name}")
        if index < len(self._cache):
            self._cache[index] = pixels
            self._cached[index] = True
        return pixels


class ImageFolder:
    """The dataset ``image_folder``."""

    name = "image_folder"
    options = ImageFolderOptions

    def open(self, split: str, options: ImageFolderOptions) -> ImageFiles:
        """List the files of ``"train"`` or ``"test"``; images are read when they are asked for.

        Raises:
            DataError: nothing there, a damaged archive, no such split, a test class without training images.
        """
        source = open_source(options.path)
        every = labelled_files(source, options.test_share)
        there = {file.split for file in every}
        folder, training = _folder(there, split, options), _folder(there, "train", options)
        if folder is None:
            names, found = " or ".join(_names(split, options)), ", ".join(sorted(there))[:80] or "no images"
            raise DataError(f"{options.path}: no {names} split; found {found}; {LAYOUT}")
        # Labels must mean the same in both splits, so both take them from the training split.
        reference = training or folder
        classes = sorted({file.label for file in every if file.split == reference})
        wanted = set(_some(classes, options, split))
        if split == "test" and folder == training:
            _check_apart(options, classes)
        files = [file for file in every if file.split == folder]
        unknown = {file.label for file in files}.difference(classes)
        if unknown:
            raise DataError(
                f"{options.path}: class {min(unknown)!r} of {folder} has no images in {reference}"
            )
        files = [file for file in files if file.label in wanted]
        if not files:
            raise DataError(
                f"{options.path}: {split}_classes leaves no images of {len(classes)} classes in {folder}"
            )
        return ImageFiles(source, files, classes, options)


def labelled_files(source: Source, test_share: float) -> Sequence[ImageFile]:
    """The files of split/class/file; where there is none, class/file as the splits train and test.

    Args:
        source: where they lie.
        test_share: of each class that goes to the split test, where folders do not say which.
    """
    if source.files:
        return source.files
    found = arrange(source.names, test_share, len(source.names))
    parts = {"train": found.train, "test": found.test}
    return [
        ImageFile(split, picture.label, picture.name)
        for split, pictures in parts.items()
        for picture in pictures
        if picture.label
    ]


def _names(split: str, options: ImageFolderOptions) -> tuple[str, ...]:
    """What the folder of a split may be called."""
    named = options.train_split if split == "train" else options.test_split
    return (named,) if named else _SPLITS[split]


def _folder(there: Collection[str], split: str, options: ImageFolderOptions) -> str | None:
    """The folder that holds a split, None without one."""
    return next((name for name in _names(split, options) if name in there), None)


def _some(classes: Sequence[str], options: ImageFolderOptions, split: str) -> Sequence[str]:
    """The classes that a split is to hold."""
    text = options.train_classes if split == "train" else options.test_classes
    return classes[slice(*(int(part) if part else None for part in text.split(":")))]


def _check_apart(options: ImageFolderOptions, classes: Sequence[str]) -> None:
    """Raise ``DataError`` where one folder serves as both splits and a class of it would, too."""
    shared = set(_some(classes, options, "train")).intersection(_some(classes, options, "test"))
    if shared:
        raise DataError(
            f"{options.path}: class {min(shared)!r} would be trained on and scored; "
            "train_classes and test_classes of one folder may not meet"
        )
