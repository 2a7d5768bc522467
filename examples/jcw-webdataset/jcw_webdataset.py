"""The dataset ``webdataset`` as a plugin: images in uncompressed tar shards, read where they lie.

A shard holds pairs of files, ``KEY.jpg`` (or another image) and ``KEY.cls`` with the number of its class, as the WebDataset
library writes them. Shards are listed once; images are read by their place in the file, in any order and by any thread.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from jcw_core.datasets.image_folder import ImageFiles
from jcw_core.datasets.image_options import TrainingImageOptions
from jcw_core.datasets.image_source import SUFFIXES, ImageFile
from jcw_core.errors import DataError
from jcw_core.hookspecs import hookimpl
from jcw_core.options import option

_LABEL = ".cls"
_LONGEST_LABEL = 16
"""Bytes of a .cls file."""
_MOST_CLASSES = 1 << 20
_LARGEST_IMAGE = 64 << 20
"""Bytes of an image file."""


@dataclass(frozen=True, slots=True)
class Options(TrainingImageOptions):
    """Keys of ``[data]``."""

    path: Path = option(help="folder of the shards")
    train: str = option("*train*.tar", help="pattern of the shards to train on")
    test: str = option("*val*.tar", help="pattern of the shards to score")
    classes: Path | None = option(
        None, help="text file with the name of a class in each line; numbers by default"
    )


@dataclass(frozen=True, slots=True)
class Sample:
    """Where an image lies, and its class."""

    shard: Path
    key: str
    offset: int
    size: int
    label: int

    @property
    def name(self) -> str:
        """Of the shard, and of the sample in it."""
        return f"{self.shard.name}/{self.key}"

    def read(self) -> bytes:
        """The image file. Raises ``DataError`` where the shard has changed."""
        try:
            with self.shard.open("rb") as file:
                file.seek(self.offset)
                content = file.read(self.size)
        except OSError as error:
            raise DataError(f"{self.shard}: cannot be read ({error})") from None
        if len(content) != self.size:
            raise DataError(f"{self.shard}: ends within {self.key}; fetch it again")
        return content


class Shards:
    """A ``Source`` of image files that lie in shards; their names are those of a shard and a sample in it."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = {sample.name: sample for sample in samples}
        self.files: Sequence[ImageFile] = ()
        self.names = tuple(self._samples)

    def read(self, name: str) -> bytes:
        """The content of one file."""
        return self._samples[name].read()


class WebDataset:
    """The dataset ``webdataset``."""

    name = "webdataset"
    options = Options

    def open(self, split: str, options: Options) -> ImageFiles:
        """List the shards of ``"train"`` or ``"test"``.

        Raises:
            DataError: no shards, a damaged or compressed one, an image without a class, a class without a name.
        """
        samples = _samples(options, split)
        if options.classes is not None:
            names = _lines(options.classes)
        else:
            # Both splits must agree on the number of classes, which those to train on say.
            known = samples if split == "train" else _samples(options, "train")
            names = [str(label) for label in range(1 + max(sample.label for sample in known))]
        for sample in samples:
            if sample.label >= len(names):
                raise DataError(
                    f"{sample.shard}: {sample.key} is of class {sample.label}, but there are {len(names)} classes"
                )
        files = [ImageFile(split, names[sample.label], sample.name) for sample in samples]
        return ImageFiles(Shards(samples), files, names, options)


def _samples(options: Options, split: str) -> list[Sample]:
    pattern = options.train if split == "train" else options.test
    shards = sorted(options.path.glob(pattern)) if options.path.is_dir() else []
    if not shards:
        raise DataError(
            f"{options.path}: no shards {pattern!r}; give their folder, and their names by {split}"
        )
    samples = [sample for shard in shards for sample in listed(shard)]
    if not samples:
        raise DataError(f"{options.path}: no images in {len(shards)} shards {pattern!r}")
    return samples


def listed(shard: Path) -> Iterator[Sample]:
    """The samples of a shard, in the order of their images.

    Raises:
        DataError: not an uncompressed tar file; an image without a class, or a class that is no number.
    """
    images: dict[str, tarfile.TarInfo] = {}
    labels: dict[str, int] = {}
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if not member.isreg() or path.name.startswith("."):
                    continue
                # A key ends at the first dot of the file's name, not of its folders'.
                name, dot, rest = path.name.partition(".")
                key, kind = str(path.with_name(name)), f"{dot}{rest}".lower()
                if kind == _LABEL:
                    labels[key] = _label(shard, archive, member)
                elif kind in SUFFIXES:
                    if key in images:
                        raise DataError(f"{shard}: two images are called {key}")
                    images[key] = member
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise DataError(f"{shard}: not an uncompressed tar file that can be read ({error})") from None
    for key, member in images.items():
        if key not in labels:
            raise DataError(f"{shard}: {key} has no {_LABEL} file with its class")
        if member.size > _LARGEST_IMAGE:
            raise DataError(f"{shard}: {key} has {member.size} bytes, too many for an image")
        yield Sample(shard, key, member.offset_data, member.size, labels[key])


def _label(shard: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> int:
    file = archive.extractfile(member) if member.size <= _LONGEST_LABEL else None
    text = file.read() if file else b""
    if not text.strip().isdigit() or int(text) >= _MOST_CLASSES:
        raise DataError(f"{shard}: {member.name} holds no number of a class")
    return int(text)


def _lines(path: Path) -> list[str]:
    try:
        names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as text ({error})") from None
    if not names or len(set(names)) < len(names):
        raise DataError(f"{path}: expected the name of a class in each line, no two alike")
    return names


@hookimpl
def jcw_register_datasets() -> Sequence[Any]:
    """The dataset ``webdataset``."""
    return [WebDataset()]
