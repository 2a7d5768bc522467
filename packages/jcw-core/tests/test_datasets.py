"""Datasets: what they read, and that every damage is one error that names the file."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jcw_core.data import Subset
from jcw_core.datasets.cifar10 import CLASSES, MEAN, Cifar10, Cifar10Options
from jcw_core.datasets.fashion_mnist import FashionMnist, FashionMnistOptions
from jcw_core.datasets.image_folder import ImageFolder, ImageFolderOptions
from jcw_core.datasets.image_source import ZipSource
from jcw_core.errors import DataError, RecipeError
from jcw_core.options import Location, parse
from jcw_core.protocols import Dataset

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "examples" / "data" / "fashion_mnist"
SHARED = ROOT.parent / "shared" / "data"
RNG = np.random.default_rng(0)


def idx(values: np.ndarray) -> bytes:
    return bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


PIXELS = RNG.integers(0, 256, (12, 28, 28)).astype(np.uint8)
LABELS = (np.arange(12) % 10).astype(np.uint8)


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(PIXELS))
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS)))
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
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(LABELS))[:-12], "cannot be read"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(LABELS) + b"\0" * 10**6), "found more"),
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


def damaged(data: st.DataObject, content: bytes) -> bytes:
    """Cut, flip or insert bytes, preferably near the ends, where headers and directories stand."""
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        edge = data.draw(st.integers(0, min(200, len(changed))))
        position = data.draw(st.sampled_from([edge, len(changed) - edge]) | st.integers(0, len(changed)))
        change = data.draw(st.sampled_from(["flip", "cut", "drop", "insert"]))
        if change == "cut":
            del changed[position:]
        elif change == "drop":
            del changed[position : position + data.draw(st.integers(1, 8))]
        elif change == "insert":
            changed[position:position] = data.draw(st.binary(min_size=1, max_size=8))
        elif position < len(changed):
            changed[position] = data.draw(st.integers(0, 255))
    return bytes(changed)


def fuzz(path: Path, content: bytes, data: st.DataObject, read: Callable[[], Dataset]) -> None:
    """Whatever the damage: images of the right shape, or a DataError that names the file or its folder."""
    path.write_bytes(damaged(data, content))
    try:
        found = read()
        images = found.images(np.arange(len(found)))
    except DataError as error:
        assert str(path) in str(error) or str(path.parent) in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert images.shape == (len(found), *found.image_shape)
        assert found.labels.shape == (len(found),)
        assert (found.labels < len(found.classes)).all()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_fuzzed_idx_files(mnist: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["train-images-idx3-ubyte", "train-labels-idx1-ubyte.gz"]))
    original = (mnist / name).read_bytes()
    try:
        fuzz(mnist / name, original, data, lambda: open_mnist(mnist))
    finally:
        (mnist / name).write_bytes(original)


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


Image = pytest.importorskip("PIL.Image", reason="image files need jcw-core[images]")


def encoded(pixels: np.ndarray, suffix: str = ".png") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format={".png": "PNG", ".jpg": "JPEG"}[suffix])
    return file.getvalue()


COLOUR = RNG.integers(0, 256, (6, 10, 14, 3)).astype(np.uint8)
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


@pytest.fixture(params=["folder", "stored", "deflated"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return grow(tmp_path / "images", TREE, request.param)


def grow(path: Path, files: dict[str, bytes], kind: str) -> Path:
    if kind == "folder":
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        return path
    method = zipfile.ZIP_STORED if kind == "stored" else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path.with_suffix(".zip"), "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path.with_suffix(".zip")


def open_folder(path: Path, split: str = "train", **options: object) -> Dataset:
    return ImageFolder().open(split, ImageFolderOptions(**{"path": path, "size": 10, **options}))


def everything(dataset: Dataset) -> np.ndarray:
    return dataset.images(np.arange(len(dataset)))


def test_folders_and_archives_hold_the_same(tree: Path) -> None:
    found = open_folder(tree)
    assert isinstance(found, Dataset)
    assert (list(found.classes), found.labels.tolist()) == (["cat", "dog"], [0, 0, 1])
    assert found.image_shape == (3, 10, 10)
    # The middle 10 of 14 columns; PNG is exact.
    np.testing.assert_array_equal(everything(found)[0], COLOUR[0][:, 2:12].transpose(2, 0, 1))
    np.testing.assert_array_equal(everything(found)[2], COLOUR[2][:, 2:12].transpose(2, 0, 1))


def test_val_stands_for_test_and_takes_its_labels_from_train(tree: Path) -> None:
    found = open_folder(tree, "test")
    assert found.labels.tolist() == [1]
    assert list(found.classes) == ["cat", "dog"]


def test_resize_and_crop_follow_pillow(tmp_path: Path) -> None:
    path = grow(tmp_path / "images", {"train/a/1.png": encoded(COLOUR[0])}, "folder")
    found = everything(open_folder(path, size=6, resize=8))[0]
    expected = Image.fromarray(COLOUR[0]).resize((11, 8), Image.Resampling.BILINEAR).crop((2, 1, 8, 7))
    np.testing.assert_array_equal(found, np.asarray(expected).transpose(2, 0, 1))


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1", "I;16"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_mode_becomes_the_channels_asked_for(tmp_path: Path, mode: str, channels: int) -> None:
    file = io.BytesIO()
    picture = Image.fromarray(COLOUR[0])
    picture = picture.convert("L").convert("I").convert(mode) if mode == "I;16" else picture.convert(mode)
    picture.save(file, format="JPEG" if mode == "CMYK" else "PNG")
    path = grow(tmp_path / "images", {"train/a/1.png": file.getvalue()}, "folder")
    found = open_folder(path, channels=channels)
    assert everything(found).shape == (1, channels, 10, 10)
    assert len(found.mean) == len(found.std) == channels


@pytest.mark.parametrize("cache_mb", [0, 1, 1024])
def test_images_are_the_same_with_and_without_a_cache(tmp_path: Path, cache_mb: int) -> None:
    big = RNG.integers(0, 256, (5, 400, 400, 3)).astype(np.uint8)
    path = grow(tmp_path / "images", {f"train/a/{i}.png": encoded(p) for i, p in enumerate(big)}, "stored")
    found = open_folder(path, size=400, cache_mb=cache_mb)
    order = np.array([4, 0, 2, 0, 3, 1])
    for _ in range(2):
        np.testing.assert_array_equal(found.images(order), big[order].transpose(0, 3, 1, 2))


def test_decoded_images_are_kept(tmp_path: Path) -> None:
    path = grow(tmp_path / "images", TREE, "folder")
    found = open_folder(path)
    first = everything(found)
    shutil.rmtree(path)
    np.testing.assert_array_equal(everything(found), first)
    subset = Subset(found, np.array([2]))
    np.testing.assert_array_equal(subset.images(np.array([0])), first[[2]])


PNG = TREE["train/cat/1.png"]
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


def test_sources_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such folder or \.zip file"):
        open_folder(tmp_path / "nowhere")
    (tmp_path / "text.zip").write_text("not a zip")
    with pytest.raises(DataError, match=r"not a \.zip that can be read"):
        open_folder(tmp_path / "text.zip")


def test_images_that_grow_too_large(tmp_path: Path) -> None:
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


@pytest.mark.filterwarnings("ignore::UserWarning:PIL", "ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("kind", ["folder", "stored", "deflated"])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": 2}, "channels is 2; expected 1 or 3"),
        ({"size": 64, "resize": 32}, "resize is 32, less than size 64"),
        ({"mean": [0.5]}, "mean has 1 values for 3 channels"),
        ({"std": [0.5, 0.5, 0]}, "std: 0.0 is impossible"),
        ({"size": 0}, "size: 0 is impossible"),
    ],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse(ImageFolderOptions, {"path": "x", **options}, Location(Path("recipe.toml")))


def test_cifar10_from_an_image_folder(tmp_path: Path) -> None:
    picture = RNG.integers(0, 256, (32, 32, 3)).astype(np.uint8)
    files = {f"train/{name}/1.png": encoded(picture) for name in CLASSES}
    found = open_cifar(grow(tmp_path / "images", files, "stored"))
    np.testing.assert_array_equal(everything(found)[4], picture.transpose(2, 0, 1))
    assert found.mean == pytest.approx([0.4914, 0.4822, 0.4465])
    (tmp_path / "other").mkdir()
    with pytest.raises(DataError, match="its folders are a, expected CIFAR-10's"):
        open_cifar(grow(tmp_path / "other" / "images", {"train/a/1.png": PNG}, "stored"))


def test_without_pillow_the_error_says_what_to_install(tmp_path: Path) -> None:
    path = grow(tmp_path / "images", TREE, "folder")
    code = f"""
import sys
sys.modules["PIL"] = None
import numpy as np
from pathlib import Path
from jcw_core.datasets.image_folder import ImageFolder, ImageFolderOptions
found = ImageFolder().open("train", ImageFolderOptions(Path({str(path)!r}), size=10))
try:
    found.images(np.arange(1))
except Exception as error:
    print(type(error).__name__, error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "DataError decoding images needs Pillow; pip install 'jcw-core[images]'" in result.stdout


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


def test_imagenet_as_it_is_found() -> None:
    path = SHARED / "imagenet-sample-1000.zip"
    if not path.is_file():
        pytest.skip("needs ../shared/data/imagenet-sample-1000.zip")
    test = open_folder(path, "test", size=224, resize=256)
    assert test.labels.tolist() == list(range(1000))
    assert test.classes[0] == "n01440764"
    assert test.images(np.arange(0, 1000, 250)).shape == (4, 3, 224, 224)
    with pytest.raises(DataError, match="no train split; found val"):
        open_folder(path)


def test_names_are_kept_as_they_are(tmp_path: Path) -> None:
    """File names are never paths outside the source, and classes may be any text."""
    files = {"train/ünï c/1.png": PNG, "train/../escape/1.png": PNG, "../train/x/1.png": PNG}
    files["train//d/./2.png"] = PNG
    found = open_folder(grow(tmp_path / "images", files, "stored"))
    assert json.dumps(list(found.classes)) == json.dumps(["d", "ünï c"])
    assert len(everything(found)) == 2
