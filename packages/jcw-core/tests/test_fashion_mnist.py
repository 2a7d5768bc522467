"""Fashion-MNIST: idx files, the subset that is shipped, and that every damage is one error that names the file."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from damage import fuzz
from hypothesis import given
from hypothesis import strategies as st

from jcw_core.datasets.fashion_mnist import FashionMnist, FashionMnistOptions
from jcw_core.errors import DataError
from jcw_core.protocols import Dataset

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "examples" / "data" / "fashion_mnist"
RNG = np.random.default_rng(0)


def idx(values: np.ndarray) -> bytes:
    return bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


PIXELS = RNG.integers(0, 256, (12, 28, 28)).astype(np.uint8)
LABELS = (np.arange(12) % 10).astype(np.uint8)


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(PIXELS))
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS), mtime=0))
    return tmp_path


def open_mnist(folder: Path, split: str = "train") -> Dataset:
    return FashionMnist().open(split, FashionMnistOptions(folder))


def test_idx_files_plain_and_gzipped(mnist: Path) -> None:
    found = open_mnist(mnist)
    assert isinstance(found, Dataset)
    assert (len(found), found.image_shape, len(found.classes)) == (12, (1, 28, 28), 10)
    np.testing.assert_array_equal(found.images(np.array([3, 0, 3])), PIXELS[[3, 0, 3], None])
    np.testing.assert_array_equal(found.labels, LABELS)
    assert found.labels.dtype == np.int64


@pytest.mark.parametrize(("split", "count"), [("train", 10_000), ("test", 2_000)])
def test_the_shipped_subset_is_stratified_and_looks_like_the_whole(split: str, count: int) -> None:
    found = open_mnist(SHIPPED, split)
    assert np.bincount(found.labels).tolist() == [count // 10] * 10
    pixels = found.images(np.arange(count)) / 255
    assert pixels.mean() == pytest.approx(found.mean[0], abs=0.005)
    assert pixels.std() == pytest.approx(found.std[0], abs=0.005)


def test_the_subset_is_made_again_by_its_script(tmp_path: Path) -> None:
    whole = Path("/usr/share/datasets/fashion-mnist")
    if not whole.is_dir():
        pytest.skip("needs Debian's package dataset-fashion-mnist")
    script = ROOT / "examples" / "make_fashion_mnist_subset.py"
    subprocess.run([sys.executable, script, whole, "--out", tmp_path], check=True)
    for shipped in SHIPPED.glob("*.gz"):
        again = (tmp_path / shipped.name).read_bytes()
        assert again[4:8] == bytes(4), "a time in the gzip header makes the bytes differ"
        # Compressed bytes may differ between versions of zlib; what they hold may not.
        assert gzip.decompress(again) == gzip.decompress(shipped.read_bytes())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train-images-idx3-ubyte", b"", "not an idx file"),
        ("train-images-idx3-ubyte", idx(PIXELS)[:10], "cut short within its header"),
        ("train-images-idx3-ubyte", idx(PIXELS)[:-1], "promises 9408 bytes of values, found 9407"),
        ("train-images-idx3-ubyte", idx(PIXELS) + b"x", "promises 9408 bytes of values, found more"),
        (
            "train-images-idx3-ubyte",
            idx(PIXELS[:, :27]),
            r"shape \(12, 27, 28\), expected \(images, 28, 28\)",
        ),
        ("train-images-idx3-ubyte", idx(PIXELS[:0]), r"shape \(0, 28, 28\)"),
        ("train-images-idx3-ubyte", idx(LABELS), "not an idx file of bytes with 3 axes"),
        ("train-images-idx3-ubyte", b"\0\0\x0d" + idx(PIXELS)[3:], "not an idx file"),
        ("train-images-idx3-ubyte", idx(PIXELS)[:4] + struct.pack(">3I", 2**32 - 1, 28, 28), "shape"),
        ("train-images-idx3-ubyte", idx(PIXELS[:-1]), "11 train images but 12 labels"),
        ("train-labels-idx1-ubyte", idx(LABELS + 1), "label 10 of image 9 is out of range; expected 0 to 9"),
        ("train-labels-idx1-ubyte.gz", b"not gzip", "cannot be read"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(LABELS), mtime=0)[:-12], "cannot be read"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(LABELS) + b"\0" * 10**6, mtime=0), "found more"),
    ],
)
def test_damaged_idx_files(mnist: Path, name: str, content: bytes, message: str) -> None:
    (mnist / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        open_mnist(mnist)
    assert str(mnist) in str(error.value)


def test_missing_idx_files(mnist: Path) -> None:
    with pytest.raises(DataError, match="holds neither t10k-images-idx3-ubyte nor"):
        open_mnist(mnist, "test")
    with pytest.raises(DataError, match="holds neither"):
        open_mnist(mnist / "nowhere")


@given(data=st.data())
def test_fuzzed_idx_files(mnist: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["train-images-idx3-ubyte", "train-labels-idx1-ubyte.gz"]))
    original = (mnist / name).read_bytes()
    try:
        fuzz(mnist / name, original, data, lambda: open_mnist(mnist))
    finally:
        (mnist / name).write_bytes(original)
