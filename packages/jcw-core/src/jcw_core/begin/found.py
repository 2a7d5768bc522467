"""``look``: what lies in a folder of images, as far as a recipe has to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from jcw_core.datasets.arrangement import arrange
from jcw_core.datasets.decoding import plane_of, require_pillow
from jcw_core.datasets.image_folder import TEST, TRAIN, labelled_files
from jcw_core.datasets.image_source import SUFFIXES, Source, open_source
from jcw_core.errors import DataError

TEST_SHARE = 0.2
"""Of the images to score on, where folders do not say which."""
SMALL = 96
"""Pixels on each side below which images want a network for small ones, and are not cut."""
_LOOKED_AT = 64
"""Images whose size is read."""


@dataclass(frozen=True, slots=True)
class Found:
    """Images by what can be made of them.

    Args:
        path: folder or .zip.
        classes: that folders name, sorted; none where they lie in no way in which a network can be trained on them.
        train: images to work with.
        test: images to score on.
        split: whether they lie as split/class/file.
        channels: 1 where those that were looked at are grey, else 3.
        short_side: median of them, in pixels.
        sizes: from the smallest to the largest, for people.
    """

    path: Path
    classes: Sequence[str]
    train: int
    test: int
    split: bool
    channels: int
    short_side: int
    sizes: str

    def __str__(self) -> str:
        shown = ", ".join(self.classes[:5]) + (", ..." if len(self.classes) > 5 else "")
        classes = "1 class" if len(self.classes) == 1 else f"{len(self.classes):,} classes"
        kinds = f"{classes} ({shown})" if self.classes else "no folders that name classes"
        colour = "grey" if self.channels == 1 else "colour"
        return f"{self.path}: {kinds}, {self.train} images to work with and {self.test} to score on, {self.sizes}, {colour}"


def look(path: Path, test_share: float) -> Found:
    """Look at the names of all images, and at the heads of some.

    Args:
        path: folder or .zip, laid out split/class/file, class/file or file.
        test_share: of the images to score on, where folders do not say which.

    Raises:
        DataError: nothing there, none that can be read, Pillow not installed.
    """
    require_pillow()
    source = open_source(path)
    names = source.names
    if not names:
        raise DataError(f"{path}: no images; expected files that end in {', '.join(sorted(SUFFIXES))}")
    files = labelled_files(source, test_share)
    parts = Counter(file.split for file in files)
    train, test = (next((parts[name] for name in kind if name in parts), 0) for kind in (TRAIN, TEST))
    classes: Sequence[str] = sorted({file.label for file in files if file.split in TRAIN})
    if not (ready := bool(train and test)):
        found = arrange(names, test_share, len(names))
        train, test, classes = len(found.train), len(found.test), ()
    planes = _planes(source, names, path)
    sides = sorted(min(height, width) for _, height, width in planes)
    ends = [min(planes, key=_pixels), max(planes, key=_pixels)]
    sizes = " to ".join(dict.fromkeys(f"{width} x {height}" for _, height, width in ends)) + " pixels"
    channels = max(plane[0] for plane in planes)
    return Found(
        path, classes, train, test, ready and bool(source.files), channels, int(median(sides)), sizes
    )


def _planes(source: Source, names: Sequence[str], path: Path) -> list[tuple[int, int, int]]:
    """(channels, height, width) of some images, evenly taken; those that cannot be read are passed over."""
    planes = []
    for name in names[:: max(1, len(names) // _LOOKED_AT)]:
        with suppress(DataError):
            planes.append(plane_of(source.read(name), f"{path}/{name}"))
    if not planes:
        raise DataError(f"{path}: none of the images that were looked at can be read; fetch them again")
    return planes


def _pixels(plane: tuple[int, int, int]) -> int:
    return plane[1] * plane[2]
