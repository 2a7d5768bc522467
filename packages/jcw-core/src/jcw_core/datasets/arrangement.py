"""How image files lie: in splits and classes, in classes alone, or side by side; and which of them are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

_TRAIN = ("train", "training")
_TEST = ("test", "val", "valid", "validation")


@dataclass(frozen=True, slots=True)
class Picture:
    """An image file.

    Args:
        label: the folder that names its class, ``""`` where none does.
        name: of the file, in its source.
    """

    label: str
    name: str


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Image files by what they are for; no file is in both parts.

    Args:
        train: those that networks are made with.
        test: those that they are scored on.
    """

    train: Sequence[Picture]
    test: Sequence[Picture]

    @property
    def labels(self) -> list[str]:
        """The classes that folders name, sorted."""
        return sorted({picture.label for picture in (*self.train, *self.test)} - {""})


def arrange(names: Sequence[str], test_share: float, most: int) -> Arrangement:
    """Tell splits and classes by the folders that files lie in: split/class/file, split/file, class/file or file.

    Where folders do not name two splits, each class gives its share to the second. Files that lie deeper or less deep
    than most do are left out.

    Args:
        names: paths of image files.
        test_share: share of the images to score on, where folders do not say which.
        most: images of a split at most; each class keeps its share of them.
    """
    paths = [PurePosixPath(name) for name in names]
    depth = Counter(len(path.parts) for path in paths).most_common(1)[0][0] if paths else 0
    folders = [path.parts[:-1] for path in paths if len(path.parts) == depth]
    files = [str(path) for path in paths if len(path.parts) == depth]
    first = {parts[0] for parts in folders if parts}
    is_split = bool(first & {*_TRAIN}) and bool(first & {*_TEST})
    # A folder that holds everything, or whose name is that of a split, names no class.
    names_class = depth > (2 if is_split else 1) and len({parts[-1] for parts in folders}) > 1
    pictures = [
        Picture(parts[-1] if names_class else "", file) for parts, file in zip(folders, files, strict=True)
    ]
    if is_split:
        train, test = (
            [p for p, parts in zip(pictures, folders, strict=True) if parts[0] in split]
            for split in (_TRAIN, _TEST)
        )
    else:
        ordered = sorted(pictures, key=_by_class)
        taken = {int(index) for index in _evenly(len(ordered), round(test_share * len(ordered)))}
        train = [picture for index, picture in enumerate(ordered) if index not in taken]
        test = [ordered[index] for index in sorted(taken)]
    return Arrangement(_thinned(train, most), _thinned(test, most))


def _by_class(picture: Picture) -> tuple[str, str]:
    return picture.label, picture.name


def _thinned(pictures: Sequence[Picture], most: int) -> list[Picture]:
    ordered = sorted(pictures, key=_by_class)
    return [ordered[int(index)] for index in _evenly(len(ordered), min(most, len(ordered)))]


def _evenly(total: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """``count`` of ``total`` indices, the same distance apart, to within one."""
    return (np.arange(count) * total) // max(count, 1)
