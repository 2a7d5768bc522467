"""The dataset ``image_folder``: labelled image files in a folder or a .zip, decoded when first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.datasets.decoding import Decoder
from jcw_core.datasets.image_source import LAYOUT, ImageFile, Source, open_source
from jcw_core.errors import DataError, RecipeError
from jcw_core.options import option

_SPLITS = {"train": ("train",), "test": ("test", "val", "validation")}
"""Names of the folder that holds a split; the first that is there counts."""


@dataclass(frozen=True, slots=True)
class ImageFolderOptions:
    """Keys of ``[data]``. ``mean`` and ``std`` default to ImageNet's, in grey their averages."""

    path: Path = option(help="folder or .zip, laid out split/class/file")
    size: int = option(224, low=1, high=4096, help="height and width of the images, in pixels")
    resize: int | None = option(
        None, low=1, high=8192, help="short side before the centre crop; size by default"
    )
    channels: int = option(3, low=1, high=3, help="3 for colour, 1 for grey")
    mean: tuple[float, ...] | None = option(None, low=0, high=1, help="per channel, of pixels in [0, 1]")
    std: tuple[float, ...] | None = option(None, low=1e-6, high=1, help="per channel")
    cache_mb: int = option(1024, low=0, high=2**20, help="decoded images kept in memory, in MiB")

    def __post_init__(self) -> None:
        if self.channels not in (1, 3):
            raise RecipeError(f"channels is {self.channels}; expected 1 or 3")
        if self.resize is not None and self.resize < self.size:
            raise RecipeError(f"resize is {self.resize}, less than size {self.size}")
        for key in ("mean", "std"):
            values = getattr(self, key)
            if values is not None and len(values) != self.channels:
                raise RecipeError(f"{key} has {len(values)} values for {self.channels} channels")


class ImageFiles:
    """A ``jcw_core.protocols.Dataset`` of files.

    Args:
        source: where they lie.
        files: those of the split.
        classes: names; their order gives the labels.
        options: as in the recipe.
    """

    def __init__(
        self, source: Source, files: Sequence[ImageFile], classes: Sequence[str], options: ImageFolderOptions
    ) -> None:
        self.classes = classes
        self.mean = options.mean or ((0.485, 0.456, 0.406) if options.channels == 3 else (0.449,))
        self.std = options.std or ((0.229, 0.224, 0.225) if options.channels == 3 else (0.226,))
        index = {name: label for label, name in enumerate(classes)}
        self.labels = np.array([index[file.label] for file in files], dtype=np.int64)
        self.image_shape = (options.channels, options.size, options.size)
        self.resize = options.resize
        self._source, self._files, self._path = source, files, options.path
        self._decode = Decoder(options.size, options.resize or options.size, options.channels)
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
        there = {file.split for file in source.files}
        folder = next((name for name in _SPLITS[split] if name in there), None)
        if folder is None:
            found = ", ".join(sorted(there))[:80] or "no images"
            raise DataError(
                f"{options.path}: no {' or '.join(_SPLITS[split])} split; found {found}; {LAYOUT}"
            )
        files = [file for file in source.files if file.split == folder]
        # Labels must mean the same in both splits, so both take them from the training split.
        reference = "train" if "train" in there else folder
        classes = sorted({file.label for file in source.files if file.split == reference})
        unknown = {file.label for file in files}.difference(classes)
        if unknown:
            raise DataError(
                f"{options.path}: class {min(unknown)!r} of {folder} has no images in {reference}"
            )
        return ImageFiles(source, files, classes, options)
