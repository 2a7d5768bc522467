"""CIFAR-10: its binary version, and the images in folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from image_trees import PNG, encoded, everything, grow, open_folder

from jcw_core.datasets.cifar10 import CLASSES, MEAN, Cifar10, Cifar10Options
from jcw_core.errors import DataError
from jcw_core.protocols import Dataset

SHARED = Path(__file__).parents[4] / "shared" / "data"
RNG = np.random.default_rng(0)


def records(count: int, label: int | None = None) -> bytes:
    rows = RNG.integers(0, 256, (count, 3073)).astype(np.uint8)
    rows[:, 0] = np.arange(count) % 10 if label is None else label
    return rows.tobytes()


def open_cifar(folder: Path, split: str = "train") -> Dataset:
    return Cifar10().open(split, Cifar10Options(folder))


def test_the_binary_version_of_cifar10(tmp_path: Path) -> None:
    first, second = records(10), records(7)
    (tmp_path / "data_batch_1.bin").write_bytes(first)
    (tmp_path / "data_batch_2.bin").write_bytes(second)
    (tmp_path / "test_batch.bin").write_bytes(records(3))
    found = open_cifar(tmp_path)
    assert (len(found), found.image_shape, tuple(found.classes)) == (17, (3, 32, 32), CLASSES)
    assert found.labels.tolist() == [*range(10), *range(7)]
    assert found.images(np.array([10])).tobytes() == second[1:3073]
    assert len(open_cifar(tmp_path, "test")) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes, expected a multiple of 3073"),
        (records(2)[:-1], "6145 bytes, expected a multiple of 3073"),
        (records(2, label=10), "label 10 of image 0 is out of range"),
    ],
)
def test_damaged_binary_files(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "data_batch_1.bin").write_bytes(content)
    with pytest.raises(DataError, match=rf"data_batch_1\.bin: {message}"):
        open_cifar(tmp_path)
    with pytest.raises(DataError, match=r"no test_batch\.bin"):
        open_cifar(tmp_path, "test")


def test_a_pickled_cifar10_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(b"\x80\x04N.")
    with pytest.raises(DataError, match="no train split; found no images"):
        open_cifar(tmp_path)


def test_cifar10_from_an_image_folder(tmp_path: Path) -> None:
    picture = RNG.integers(0, 256, (32, 32, 3)).astype(np.uint8)
    files = {f"train/{name}/1.png": encoded(picture) for name in CLASSES}
    found = open_cifar(grow(tmp_path / "images", files, "stored"))
    np.testing.assert_array_equal(everything(found)[4], picture.transpose(2, 0, 1))
    assert found.mean == pytest.approx([0.4914, 0.4822, 0.4465])
    (tmp_path / "other").mkdir()
    with pytest.raises(DataError, match="its folders are a, expected CIFAR-10's"):
        open_cifar(grow(tmp_path / "other" / "images", {"train/a/1.png": PNG}, "stored"))


@pytest.mark.parametrize("plugin", ["cifar10", "image_folder"])
def test_cifar10_as_it_is_found(plugin: str) -> None:
    path = SHARED / "cifar10.zip"
    if not path.is_file():
        pytest.skip("needs ../shared/data/cifar10.zip")
    test = open_cifar(path, "test") if plugin == "cifar10" else open_folder(path, "test", size=32)
    assert (len(test), test.image_shape, tuple(test.classes)) == (10_000, (3, 32, 32), CLASSES)
    assert np.bincount(test.labels).tolist() == [1000] * 10
    pixels = test.images(np.arange(0, 10_000, 10)) / 255
    np.testing.assert_allclose(pixels.mean((0, 2, 3)), MEAN, atol=0.02)
