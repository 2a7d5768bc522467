"""Images that cannot be read, and archives that lie: one error that names the file."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from damage import fuzz
from hypothesis import given, settings
from hypothesis import strategies as st
from image_trees import METHODS, PNG, TREE, encoded, everything, grow, open_folder

from jcw_core.datasets.image_source import ZipSource
from jcw_core.errors import DataError

BOMB = struct.pack(">I", 13) + b"IHDR" + struct.pack(">IIBBBBB", 2**24, 2**24, 8, 2, 0, 0, 0)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no train split; found no images; expected image files as split/class/file"),
        ({"test/a/1.png": PNG}, "no train split; found test"),
        ({"train/1.png": PNG}, "no train split; found no images"),
        ({"train/a/1.png": b""}, "train/a/1.png: not a JPEG, PNG, .* file that can be read"),
        ({"train/a/1.png": PNG[:-30]}, "train/a/1.png: cannot be decoded"),
        ({"train/a/1.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"}, "not a JPEG, PNG, .* file"),
        ({"train/a/1.png": PNG[:8] + BOMB + PNG[33:]}, "train/a/1.png: "),
    ],
)
@pytest.mark.parametrize("kind", ["folder", "deflated"])
def test_damaged_trees(tmp_path: Path, files: dict[str, bytes], message: str, kind: str) -> None:
    path = grow(tmp_path / "images", {"readme.txt": b"", **files}, kind)
    with pytest.raises(DataError, match=message) as error:
        everything(open_folder(path))
    assert str(path) in str(error.value)


def test_a_class_without_training_images(tmp_path: Path) -> None:
    path = grow(tmp_path / "images", {"train/a/1.png": PNG, "test/b/1.png": PNG}, "folder")
    with pytest.raises(DataError, match="class 'b' of test has no images in train"):
        open_folder(path, "test")


def test_a_missing_folder_and_a_damaged_zip_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such folder or \.zip file"):
        open_folder(tmp_path / "nowhere")
    (tmp_path / "text.zip").write_text("not a zip")
    with pytest.raises(DataError, match=r"not a \.zip that can be read"):
        open_folder(tmp_path / "text.zip")


def test_images_that_are_too_large_once_resized_are_refused(tmp_path: Path) -> None:
    """A line of one pixel's height is small until its short side is resized."""
    line = encoded(np.zeros((1, 60_000, 3), dtype=np.uint8))
    path = grow(tmp_path / "images", {"train/a/1.png": line}, "folder")
    with pytest.raises(DataError, match=r"1\.png: 60000 x 1 pixels, resized to 6000000 x 100, is too large"):
        everything(open_folder(path, size=100))


def test_members_that_are_too_large_are_not_unpacked(tmp_path: Path) -> None:
    path = grow(tmp_path / "bomb", {"train/a/1.png": b"\0" * (64 * 2**20 + 1)}, "deflated")
    assert path.stat().st_size < 2**20
    with pytest.raises(DataError, match=r"train/a/1\.png: 67108865 bytes is too large for an image"):
        everything(open_folder(path))


def test_members_that_understate_their_size(tmp_path: Path) -> None:
    path = grow(tmp_path / "liar", {"train/a/1.png": b"\0" * 10**7}, "deflated")
    content = path.read_bytes().replace(struct.pack("<I", 10**7), struct.pack("<I", 100))
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"train/a/1\.png: cannot be read"):
        ZipSource(path).read("train/a/1.png")


def test_encrypted_members(tmp_path: Path) -> None:
    path = grow(tmp_path / "locked", {"train/a/1.png": PNG}, "stored")
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"train/a/1\.png: cannot be read .*encrypted"):
        everything(open_folder(path))


@pytest.mark.parametrize("kind", METHODS)
@settings(max_examples=30)
@given(data=st.data())
def test_packed_members_that_are_damaged(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    path = grow(tmp_path_factory.mktemp("packed") / "images", {"train/a/1.png": PNG}, kind)
    content, start = bytearray(path.read_bytes()), 30 + len("train/a/1.png")
    for place in data.draw(st.lists(st.integers(start, start + 60), min_size=1, max_size=9)):
        content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        found = ZipSource(path).read("train/a/1.png")
    except DataError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        assert found == PNG


@pytest.mark.filterwarnings("ignore::UserWarning:PIL", "ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("kind", ["folder", *METHODS])
@settings(max_examples=100)
@given(data=st.data())
def test_fuzzed_trees(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    root = tmp_path / "images"
    shutil.rmtree(root, ignore_errors=True)
    path = grow(root, {n: c for n, c in TREE.items() if n.startswith("train")}, kind)
    target = (
        path / data.draw(st.sampled_from(["train/cat/1.png", "train/cat/2.jpg"]))
        if kind == "folder"
        else path
    )
    fuzz(target, target.read_bytes(), data, lambda: open_folder(path))
