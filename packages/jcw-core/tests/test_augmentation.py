"""Random parts of image files: which ones, how they are resized, mirrored and recoloured, and that they come again."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_trees import COLOUR, TREE, Image, encoded, everything, grow, open_folder

from jcw_core.datasets.augmentation import RandomDecoder, random_box
from jcw_core.datasets.split import Subset
from jcw_core.errors import DataError
from jcw_core.protocols import Augmented, Dataset

SIDES = st.integers(1, 3000)


def augmented_by(dataset: Dataset) -> Augmented:
    found = getattr(dataset, "augmented")  # noqa: B009  a dataset need not have it
    assert found is not None
    return found


@given(size=st.tuples(SIDES, SIDES), least=st.floats(0.001, 1), seed=st.integers(0, 2**32 - 1))
def test_a_part_lies_inside(size: tuple[int, int], least: float, seed: int) -> None:
    left, top, right, bottom = random_box(size, least, np.random.default_rng(seed))
    assert 0 <= left < right <= size[0]
    assert 0 <= top < bottom <= size[1]


def test_areas_and_shapes_are_even() -> None:
    rng = np.random.default_rng(0)
    boxes = np.array([random_box((2000, 2000), 0.08, rng) for _ in range(4000)])
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    area, shape = width * height / 2000**2, np.log(width / height)
    assert area.min() >= 0.079
    # Above 3/4 the widest and highest do not fit.
    assert abs(area[area < 0.75].mean() - (0.08 + 0.75) / 2) < 0.01
    assert abs(shape.mean()) < 0.01
    assert np.log(0.74) < shape.min() < np.log(0.77) < np.log(1.3) < shape.max() < np.log(1.35)
    assert abs((boxes[:, 0] + boxes[:, 2]).mean() - 2000) < 30


@pytest.mark.parametrize(
    ("size", "expected"), [((900, 30), (430, 0, 470, 30)), ((30, 900), (0, 430, 30, 470))]
)
def test_the_middle_where_no_shape_fits(size: tuple[int, int], expected: tuple[int, ...]) -> None:
    assert random_box(size, 0.9, np.random.default_rng(0)) == expected


def test_a_part_is_resized_and_perhaps_mirrored() -> None:
    rows = np.arange(40)[:, None, None] + 3 * np.arange(30)[None, :, None] + np.array([0, 50, 100])
    pixels, decode = rows.astype(np.uint8), RandomDecoder(8, 3, 0.3, 0.0)
    mirrored = 0
    for seed in range(20):
        rng, again = np.random.default_rng(seed), np.random.default_rng(seed)
        found = decode(encoded(pixels), "x.png", rng)
        box = random_box((30, 40), 0.3, again)
        expected = np.asarray(Image.fromarray(pixels).resize((8, 8), Image.Resampling.BILINEAR, box))
        flipped = bool(again.random() < 0.5)
        mirrored += flipped
        np.testing.assert_array_equal(found, (expected[:, ::-1] if flipped else expected).transpose(2, 0, 1))
    assert 4 < mirrored < 16


def test_a_large_photograph_is_decoded_at_a_fraction() -> None:
    ramp = np.linspace(0, 255, 1600)[None, :, None] * np.ones((1200, 1, 3))
    photo = encoded(ramp.astype(np.uint8), ".jpg")
    drawn = [RandomDecoder(32, 3, 0.9, 0.0)(photo, "x.jpg", np.random.default_rng(seed)) for seed in range(8)]
    for seed, found in enumerate(drawn):
        rng = np.random.default_rng(seed)
        box = random_box((1600, 1200), 0.9, rng)
        whole = Image.open(io.BytesIO(photo)).resize((32, 32), Image.Resampling.BILINEAR, box)
        expected = np.asarray(whole)[:, ::-1] if rng.random() < 0.5 else np.asarray(whole)
        assert np.abs(found.transpose(1, 2, 0).astype(int) - expected).max() <= 3


def test_brightness_stays_within_what_is_asked_for() -> None:
    grey = encoded(np.full((20, 20, 3), 100, dtype=np.uint8))
    found = [RandomDecoder(4, 3, 1.0, 0.2)(grey, "x.png", np.random.default_rng(s)) for s in range(200)]
    levels = np.array([image.mean() for image in found])
    assert 79 <= levels.min() < 85
    assert 115 < levels.max() <= 121


@pytest.mark.parametrize("channels", [1, 3])
def test_colours_change_and_the_same_generator_changes_them_alike(channels: int) -> None:
    decode = RandomDecoder(16, channels, 0.5, 0.4)
    one, same, other = (
        decode(encoded(COLOUR[0]), "x.png", np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert one.shape == (channels, 16, 16)
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_a_folder_is_augmented_unless_it_is_told_not_to(tmp_path: Path) -> None:
    path = grow(tmp_path / "images", TREE, "deflated")
    assert getattr(open_folder(path, augment=False), "augmented") is None  # noqa: B009
    found = open_folder(path)
    plain = everything(found)
    subset = Subset(found, np.array([2, 0]))
    changed = augmented_by(subset)(np.array([0, 1, 0]), np.random.default_rng(0))
    assert changed.shape == (3, 3, 10, 10)
    expected = augmented_by(found)(np.array([2, 0, 2]), np.random.default_rng(0))
    np.testing.assert_array_equal(changed, expected)
    assert (changed[0] != changed[2]).any()
    np.testing.assert_array_equal(everything(found), plain)


def test_what_is_damaged_is_named(tmp_path: Path) -> None:
    path = grow(tmp_path / "images", {**TREE, "train/cat/3.png": b"no image"}, "folder")
    found = open_folder(path)
    with pytest.raises(DataError, match=r"train/cat/3\.png: not a JPEG, PNG"):
        augmented_by(found)(np.arange(len(found)), np.random.default_rng(0))
