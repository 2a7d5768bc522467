"""``open_source``: lists and reads image files in a folder or a .zip, laid out split/class/file."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from jcw_core.errors import DataError
from jcw_core.files import read_member

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".webp"})
LAYOUT = (
    "expected image files as split/class/file with a split train and a split test or val, or as class/file"
)
_FILE_LIMIT = 64 * 2**20
"""Bytes of one image file."""


@dataclass(frozen=True, slots=True, order=True)
class ImageFile:
    """One image file: its split, its class, and its name in the source."""

    split: str
    label: str
    name: str


class Source(Protocol):
    """A folder or an archive."""

    @property
    def files(self) -> Sequence[ImageFile]:
        """Sorted by split, class and name."""

    @property
    def names(self) -> Sequence[str]:
        """Sorted names of all image files, however deep they lie."""

    def read(self, name: str) -> bytes:
        """The content of one file. Raises ``DataError`` when it is damaged or too large."""


def open_source(path: Path) -> Source:
    """Open a folder or a .zip.

    Raises:
        DataError: there is none, or it is damaged.
    """
    if path.is_dir():
        return FolderSource(path)
    if path.is_file():
        return ZipSource(path)
    raise DataError(f"{path}: no such folder or .zip file")


class FolderSource:
    """Image files in a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        found = (p.relative_to(path).as_posix() for p in path.glob("*/*/*") if p.is_file())
        self.files = _image_files(found)

    @property
    def names(self) -> tuple[str, ...]:
        """Sorted names of all image files, however deep they lie."""
        return _image_names(
            p.relative_to(self._path).as_posix() for p in self._path.rglob("*") if p.is_file()
        )

    def read(self, name: str) -> bytes:
        """The content of one file."""
        path = self._path / name
        try:
            _check_size(str(path), path.stat().st_size)
            return path.read_bytes()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error})") from None


class ZipSource:
    """Image files in a .zip, which stays open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
            raise DataError(f"{path}: not a .zip that can be read ({error}); fetch it again") from None
        self.files = _image_files(self._zip.namelist())

    @property
    def names(self) -> tuple[str, ...]:
        """Sorted names of all image files, however deep they lie."""
        return _image_names(self._zip.namelist())

    def read(self, name: str) -> bytes:
        """The content of one member."""
        place = f"{self._path}/{name}"
        _check_size(place, self._zip.getinfo(name).file_size)
        try:
            return read_member(self._zip, name, _FILE_LIMIT)
        except zipfile.BadZipFile as error:
            raise DataError(f"{place}: cannot be read ({error}); fetch the archive again") from None


def _image_files(names: Iterable[str]) -> tuple[ImageFile, ...]:
    paths = ((name, PurePosixPath(name)) for name in _image_names(names))
    return tuple(
        sorted(ImageFile(path.parts[0], path.parts[1], name) for name, path in paths if len(path.parts) == 3)
    )


def _image_names(names: Iterable[str]) -> tuple[str, ...]:
    """What ends like an image and is not hidden."""
    paths = ((name, PurePosixPath(name)) for name in names)
    return tuple(
        sorted(
            name
            for name, path in paths
            if path.suffix.lower() in SUFFIXES and not any(part.startswith(".") for part in path.parts)
        )
    )


def _check_size(place: str, size: int) -> None:
    if size > _FILE_LIMIT:
        raise DataError(f"{place}: {size} bytes is too large for an image; expected at most {_FILE_LIMIT}")
