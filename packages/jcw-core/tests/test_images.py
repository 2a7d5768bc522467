"""The dataset ``images``: whatever way image files lie, no image is in both splits, and labels are right or none."""

from __future__ import annotations

import warnings
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_trees import COLOUR, Image, encoded, grow

from jcw_core.datasets.arrangement import arrange
from jcw_core.datasets.images import Images, ImagesOptions
from jcw_core.datasets.memory import MemoryDataset
from jcw_core.errors import DataError, JcwWarning

PIXELS = [encoded(image) for image in COLOUR]
SPLIT = {
    f"{split}/{label}/{i}.png": PIXELS[i] for split in ("train", "val") for label in "ab" for i in range(3)
}
CLASSES = {f"{label}/{i}.png": PIXELS[i] for label in "ab" for i in range(6)}
FLAT = {f"{i}.png": PIXELS[i % 6] for i in range(10)}


def opened(path: Path, split: str = "test", **options: object) -> MemoryDataset:
    return Images().open(split, ImagesOptions(**{"path": path, "size": 10, **options}))


@pytest.mark.parametrize("kind", ["folder", "stored"])
def test_folders_that_name_splits_and_classes(tmp_path: Path, kind: str) -> None:
    path = grow(tmp_path / "photos", SPLIT, kind)
    test, train = opened(path), opened(path, "train")
    assert (list(test.classes), test.labels.tolist()) == (["a", "b"], [0, 0, 0, 1, 1, 1])
    assert train.labels.tolist() == [-1] * 6
    middle = COLOUR[2][:, 2:12].transpose(2, 0, 1)
    np.testing.assert_array_equal(test.pixels[[2, 5]], np.stack([middle, middle]))


def test_classes_without_splits_are_divided_evenly(tmp_path: Path) -> None:
    path = grow(tmp_path / "photos", CLASSES, "folder")
    test, train = opened(path, test_share=0.5), opened(path, "train", test_share=0.5)
    assert np.bincount(test.labels).tolist() == [3, 3]
    seen = {image.tobytes() for image in train.pixels}
    # The same six images stand in both classes, and every other one is for the test.
    assert len(train) == len(test) == 6
    assert not seen & {image.tobytes() for image in test.pixels}


@pytest.mark.parametrize("files", [FLAT, {f"all/{name}": data for name, data in FLAT.items()}])
def test_images_without_classes_have_no_labels(tmp_path: Path, files: dict[str, bytes]) -> None:
    found = opened(grow(tmp_path / "photos", files, "folder"), outputs=7)
    assert len(found) == 3
    assert found.labels.tolist() == [-1] * 3
    assert list(found.classes) == [str(i) for i in range(7)]


def test_folders_that_are_not_as_many_as_the_classes_give_no_labels(tmp_path: Path) -> None:
    path = grow(tmp_path / "photos", CLASSES, "folder")
    assert (opened(path, outputs=3).labels == -1).all()
    names = tmp_path / "names.txt"
    names.write_text("c\nb the second letter\n\na\n")
    found = opened(path, outputs=3, names=names)
    assert list(found.classes) == ["c", "b the second letter", "a"]
    assert found.labels.tolist() == [2, 2, 1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb\n", "2 names, but the network has 3 outputs"),
        ("a\nc\nd\n", "lacks the class of the folder 'b'"),
        ("a\na\nb\n", "no two alike"),
        (None, "cannot be read as text"),
    ],
)
def test_names_that_do_not_go_with_the_images(tmp_path: Path, text: str | None, message: str) -> None:
    path, names = grow(tmp_path / "photos", CLASSES, "folder"), tmp_path / "names.txt"
    if text is not None:
        names.write_text(text)
    with pytest.raises(DataError, match=rf"{names}: .*{message}"):
        opened(path, outputs=3, names=names)


def test_images_that_cannot_be_decoded_are_named_and_left_out(tmp_path: Path) -> None:
    damaged = {f"{i}.png": PIXELS[0][: 40 + i] for i in range(20, 22)}
    path = grow(tmp_path / "photos", FLAT | damaged, "folder")
    with pytest.warns(
        JcwWarning, match=r"2 of 11 images cannot be decoded and are left out: 20.png, 21.png$"
    ):
        found = opened(path, "train", test_share=0.05)
    assert len(found) == 9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(opened(path, "test", test_share=0.05)) == 1


def test_no_image_that_can_be_decoded_is_an_error(tmp_path: Path) -> None:
    path = grow(tmp_path / "photos", {f"{i}.png": b"no" for i in range(4)}, "folder")
    with pytest.raises(DataError, match=r"none of 3 images can be decoded; .*1.png: not a JPEG"):
        opened(path, "train")
    with pytest.raises(DataError, match=r"0 images to work with and 0 to score on are too few"):
        opened(grow(tmp_path / "none", {"a.txt": b""}, "folder"))


@pytest.mark.parametrize("size", [(5, 20), (20, 5), (7, 7)])
def test_images_are_cut_to_any_rectangle(tmp_path: Path, size: tuple[int, int]) -> None:
    """As Pillow resizes the smallest image that covers the rectangle."""
    height, width = size
    path = grow(tmp_path / "photos", FLAT, "folder")
    found = opened(path, "train", size=height, width=width)
    image = Image.fromarray(COLOUR[1])  # 10 high, 14 wide
    scale = max(height / 10, width / 14)
    whole = image.resize((round(14 * scale), round(10 * scale)), Image.Resampling.BILINEAR)
    left, top = (whole.width - width) // 2, (whole.height - height) // 2
    wanted = np.asarray(whole.crop((left, top, left + width, top + height))).transpose(2, 0, 1)
    assert found.image_shape == (3, height, width)
    np.testing.assert_array_equal(found.pixels[0], wanted)


@given(
    st.integers(0, 3),
    st.lists(st.integers(0, 3), min_size=8, max_size=60),
    st.floats(0.05, 0.9),
    st.integers(1, 80),
)
def test_splits_are_apart_whatever_the_folders(
    depth: int, labels: list[int], share: float, most: int
) -> None:
    names = []
    for index, label in enumerate(labels):
        folders = [("train", "val")[index % 2], f"class{label}", "x"][:depth]
        names.append("/".join([*folders, f"{index}.jpg"]))
    found = arrange(names, share, most)
    parts = [[p.name for p in part] for part in (found.train, found.test)]
    assert not set(parts[0]) & set(parts[1])
    assert set(parts[0]) | set(parts[1]) <= set(names)
    assert max(map(len, parts)) <= most
    if depth == 2:
        assert {name.split("/")[0] for name in parts[1]} <= {"val"}
        classes = {PurePosixPath(name).parts[1] for name in names}
        assert all(
            p.label == (PurePosixPath(p.name).parts[1] if len(classes) > 1 else "") for p in found.train
        )
    if depth == 0 and most == 80:
        assert len(parts[1]) == round(share * len(labels))


def test_every_class_gives_its_share() -> None:
    names = [f"{label}/{i}.jpg" for label, count in (("a", 40), ("b", 10)) for i in range(count)]
    found = arrange(names, 0.2, 1000)
    assert [p.label for p in found.test].count("b") == 2
    thinned = arrange(names, 0.2, 20)
    assert [p.label for p in thinned.train].count("a") == 16
