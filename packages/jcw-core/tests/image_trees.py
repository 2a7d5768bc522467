"""Images as files in folders and archives, and the dataset that reads them. Needs Pillow."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from jcw_core.datasets.image_folder import ImageFolder, ImageFolderOptions
from jcw_core.protocols import Dataset

Image = pytest.importorskip("PIL.Image", reason="image files need jcw-core[images]")


def encoded(pixels: np.ndarray, suffix: str = ".png") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format={".png": "PNG", ".jpg": "JPEG"}[suffix])
    return file.getvalue()


COLOUR = np.random.default_rng(0).integers(0, 256, (6, 10, 14, 3)).astype(np.uint8)
TREE = {
    "train/cat/1.png": encoded(COLOUR[0]),
    "train/cat/2.jpg": encoded(COLOUR[1], ".jpg"),
    "train/dog/0.PNG": encoded(COLOUR[2]),
    "val/dog/9.png": encoded(COLOUR[3]),
    "train/cat/.hidden.png": b"",
    "train/cat/notes.txt": b"",
    "__MACOSX/cat/._1.png": b"",
    "readme.png": b"",
}
METHODS = {
    "stored": zipfile.ZIP_STORED,
    "deflated": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}
"""How the members of a .zip may be packed."""
PNG = TREE["train/cat/1.png"]


def grow(path: Path, files: dict[str, bytes], kind: str) -> Path:
    if kind == "folder":
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        return path
    with zipfile.ZipFile(path.with_suffix(".zip"), "w", METHODS[kind]) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path.with_suffix(".zip")


def open_folder(path: Path, split: str = "train", **options: object) -> Dataset:
    return ImageFolder().open(split, ImageFolderOptions(**{"path": path, "size": 10, **options}))


def everything(dataset: Dataset) -> np.ndarray:
    return dataset.images(np.arange(len(dataset)))
