"""The dataset ``images``: image files as they lie, with classes or without, for a network that is trained already."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.datasets.arrangement import Arrangement, Picture, arrange
from jcw_core.datasets.decoding import Decoder, require_pillow
from jcw_core.datasets.image_options import ImageOptions
from jcw_core.datasets.image_source import SUFFIXES, Source, open_source
from jcw_core.datasets.memory import MemoryDataset
from jcw_core.errors import DataError, JcwWarning
from jcw_core.options import option

_SHOWN = 5
"""Names of damaged files that a warning tells."""


@dataclass(frozen=True, slots=True)
class ImagesOptions(ImageOptions):
    """Keys of ``[data]``."""

    path: Path = option(help="folder or .zip of image files: split/class/file, class/file or file")
    width: int | None = option(None, low=1, high=4096, help="width of the images; size by default")
    outputs: int | None = option(
        None, low=1, help="classes of the network; by default as many as folders or names"
    )
    names: Path | None = option(
        None, help="text file with the name of a class in each line, in the network's order"
    )
    test_share: float = option(
        0.3, low=0.01, high=0.9, help="of the images to score on, where no folder says which"
    )
    most: int = option(1000, low=1, help="images of a split at most; others are left out evenly")


class Images:
    """The dataset ``images``. Those to train on have no labels: what needs some is no use of it."""

    name = "images"
    options = ImagesOptions

    def open(self, split: str, options: ImagesOptions) -> MemoryDataset:
        """Decode the images of ``"train"`` or ``"test"``; files that cannot be decoded are left out with a warning.

        Labels are those of folders, where the network's classes are known by them: as many as it has, or named in a
        file. All are -1 elsewhere.

        Raises:
            DataError: nothing there, a damaged archive, Pillow not installed, no image of the split that can be read.
        """
        require_pillow()
        source = open_source(options.path)
        found = arrangement(source, options)
        pictures = found.train if split == "train" else found.test
        pixels, good = _decoded(source, pictures, options)
        classes, known = classes_of(found, options)
        labels = np.full(len(good), -1, dtype=np.int64)
        if split != "train" and known:
            labels[:] = [known[picture.label] for picture in good]
        mean, std = options.normalisation
        return MemoryDataset(
            classes=classes,
            mean=mean,
            std=std,
            pixels=pixels,
            labels=labels,
            resize=options.resize,
        )


def arrangement(source: Source, options: ImagesOptions) -> Arrangement:
    """Which files are for what. Raises ``DataError`` where there is no image."""
    found = arrange(source.names, options.test_share, options.most)
    if not found.train or not found.test:
        raise DataError(
            f"{options.path}: {len(found.train)} images to work with and {len(found.test)} to score on are too few; "
            f"expected files that end in {', '.join(sorted(SUFFIXES))}"
        )
    return found


def classes_of(found: Arrangement, options: ImagesOptions) -> tuple[Sequence[str], dict[str, int]]:
    """The names of the network's classes, and which one each folder stands for; none where that is not known.

    Raises:
        DataError: names that are not as many as the network has classes, or that lack a folder's.
    """
    folders = found.labels
    if options.names is not None:
        names = _lines(options.names)
        if options.outputs not in (None, len(names)):
            raise DataError(
                f"{options.names}: {len(names)} names, but the network has {options.outputs} outputs"
            )
        # A line may go on in words that people read, after the name of the folder.
        index = {line.split()[0]: i for i, line in enumerate(names)} | {
            line: i for i, line in enumerate(names)
        }
        unknown = [folder for folder in folders if folder not in index]
        if unknown:
            raise DataError(f"{options.names}: lacks the class of the folder {unknown[0]!r}")
        return names, {folder: index[folder] for folder in folders}
    if folders and options.outputs in (None, len(folders)):
        return folders, {folder: label for label, folder in enumerate(folders)}
    return [str(label) for label in range(options.outputs or 1)], {}


def _lines(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as text ({error})") from None
    names = [line for line in lines if line]
    if len(set(names)) < len(names) or not names:
        raise DataError(f"{path}: expected the name of a class in each line, no two alike")
    return names


def _decoded(
    source: Source, pictures: Sequence[Picture], options: ImagesOptions
) -> tuple[NDArray[np.uint8], list[Picture]]:
    """Pixels (n, channels, height, width) of the files that can be read, and which these are."""
    decode = Decoder(options.size, options.resize or options.size, options.channels, options.width)
    shape = (options.channels, options.size, options.width or options.size)
    pixels = np.empty((len(pictures), *shape), dtype=np.uint8)
    good: list[Picture] = []
    bad: list[tuple[str, str]] = []
    for picture in pictures:
        place = f"{options.path}/{picture.name}"
        try:
            pixels[len(good)] = decode(source.read(picture.name), place)
            good.append(picture)
        except DataError as error:
            bad.append((picture.name, str(error)))
    if not good:
        raise DataError(f"{options.path}: none of {len(pictures)} images can be decoded; {bad[0][1]}")
    if bad:
        shown = ", ".join(name for name, _ in bad[:_SHOWN]) + (", ..." if len(bad) > _SHOWN else "")
        warnings.warn(
            f"{options.path}: {len(bad)} of {len(pictures)} images cannot be decoded and are left out: {shown}",
            JcwWarning,
            stacklevel=2,
        )
    return pixels[: len(good)], good
