"""Images in folders and archives: what is read, resized, cropped and kept."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from image_trees import COLOUR, PNG, TREE, Image, encoded, everything, grow, open_folder

from jcw_core.datasets.image_folder import ImageFolderOptions
from jcw_core.datasets.split import Subset
from jcw_core.errors import DataError, RecipeError
from jcw_core.options import Location, parse
from jcw_core.protocols import Dataset

SHARED = Path(__file__).parents[4] / "shared" / "data"
RNG = np.random.default_rng(0)


@pytest.fixture(params=["folder", "stored", "deflated"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return grow(tmp_path / "images", TREE, request.param)


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


def test_names_are_kept_as_they_are(tmp_path: Path) -> None:
    """File names are never paths outside the source, and classes may be any text."""
    files = {"train/ünï c/1.png": PNG, "train/../escape/1.png": PNG, "../train/x/1.png": PNG}
    files["train//d/./2.png"] = PNG
    found = open_folder(grow(tmp_path / "images", files, "stored"))
    assert json.dumps(list(found.classes)) == json.dumps(["d", "ünï c"])
    assert len(everything(found)) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": 2}, "channels is 2; expected 1 or 3"),
        ({"size": 64, "resize": 32}, "resize is 32, less than size 64"),
        ({"mean": [0.5]}, "mean has 1 values for 3 channels"),
        ({"std": [0.5, 0.5, 0]}, "std: 0.0 is impossible"),
        ({"size": 0}, "size: 0 is impossible"),
        ({"train_classes": "2"}, "train_classes is '2'; expected START:STOP:STEP"),
        ({"test_classes": "::0"}, "test_classes is '::0'; expected START:STOP:STEP"),
        ({"test_classes": "1::2x"}, "test_classes is '1::2x'"),
    ],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse(ImageFolderOptions, {"path": "x", **options}, Location(Path("recipe.toml")))


CLASSES = {f"val/{name}/{number}.png": PNG for name in "abcde" for number in range(2)}


@pytest.mark.parametrize(
    ("train", "test", "labels"),
    [
        ("::2", "1::2", ([0, 2, 4], [1, 3])),
        (":3", "3:", ([0, 1, 2], [3, 4])),
        (":-1", "-1:", ([0, 1, 2, 3], [4])),
    ],
)
def test_one_folder_serves_as_both_splits_by_classes(
    tmp_path: Path, train: str, test: str, labels: tuple[list[int], list[int]]
) -> None:
    path = grow(tmp_path / "images", CLASSES, "stored")
    options = {"train_split": "val", "train_classes": train, "test_classes": test}
    for split, expected in zip(("train", "test"), labels, strict=True):
        found = open_folder(path, split, **options)
        assert sorted(set(found.labels.tolist())) == expected
        assert len(found) == 2 * len(expected)
        assert list(found.classes) == list("abcde"), "labels are places in the network's output"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_split": "val"}, "class 'a' would be trained on and scored"),
        ({"train_split": "val", "test_classes": "4:"}, "class 'e' would be trained on and scored"),
        (
            {"train_split": "val", "train_classes": ":1", "test_classes": "7:"},
            "test_classes leaves no images of 5",
        ),
        ({"test_split": "nowhere"}, "no nowhere split; found val"),
    ],
)
def test_no_image_is_trained_on_and_scored(tmp_path: Path, options: dict[str, str], message: str) -> None:
    path = grow(tmp_path / "images", CLASSES, "stored")
    with pytest.raises(DataError, match=message):
        open_folder(path, "test", **options)


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


def test_class_and_file_alone_are_divided_by_a_share_of_each_class(tmp_path: Path) -> None:
    files = {f"{label}/{index}.png": PNG for label in ("cat", "dog") for index in range(10)}
    path = grow(tmp_path / "images", {**files, "cat/deep/er/1.png": PNG}, "folder")
    train, test = (open_folder(path, split) for split in ("train", "test"))
    assert train.classes == test.classes == ["cat", "dog"]
    assert np.bincount(train.labels).tolist() == [8, 8]
    assert np.bincount(test.labels).tolist() == [2, 2]
    assert len(open_folder(path, "test", test_share=0.5)) == 10
    # Where some lie as split/class/file, only these are meant.
    grow(path, {"train/cat/1.png": PNG}, "folder")
    assert len(open_folder(path)) == 1
