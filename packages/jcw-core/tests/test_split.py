"""Holding images out, normalising, and models whose weights do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from core_networks import random_weights, small_resnet
from hypothesis import given
from hypothesis import strategies as st

from jcw_core.datasets.memory import MemoryDataset
from jcw_core.datasets.split import Subset, divide, hold_out, normalise, outside, some
from jcw_core.errors import DataError, FormatError
from jcw_core.network.model import Model
from jcw_core.protocols import Dataset


def dataset(labels: np.ndarray, classes: int) -> MemoryDataset:
    pixels = np.arange(len(labels) * 3 * 2 * 2, dtype=np.uint64).astype(np.uint8).reshape(-1, 3, 2, 2)
    return MemoryDataset([str(c) for c in range(classes)], [0.5] * 3, [0.25] * 3, pixels, labels)


@given(st.lists(st.integers(0, 4), min_size=10, max_size=200), st.data(), st.integers(0, 99))
def test_held_out_images_are_stratified(labels: list[int], data: st.DataObject, seed: int) -> None:
    whole = dataset(np.array(labels), 5)
    count = data.draw(st.integers(1, len(labels) - 5))
    rest, held = hold_out(whole, count, np.random.default_rng(seed))
    assert isinstance(held, Dataset)
    assert (len(rest), len(held)) == (len(labels) - count, count)
    assert sorted([*rest.indices, *held.indices]) == list(range(len(labels)))
    assert (np.diff(held.indices) > 0).all()
    for label in range(5):
        share = labels.count(label) * count / len(labels)
        assert abs(np.count_nonzero(held.labels == label) - share) < 1


@given(
    st.lists(st.integers(0, 4), min_size=2, max_size=200),
    st.floats(0, 1, exclude_min=True, exclude_max=True),
    st.integers(0, 99),
)
def test_held_out_images_are_divided_in_the_proportions_of_their_classes(
    labels: list[int], share: float, seed: int
) -> None:
    whole = dataset(np.array(labels), 5)
    search, again = divide(whole, share, np.random.default_rng(seed))
    assert sorted([*search.indices, *again.indices]) == list(range(len(labels)))
    assert min(len(search), len(again)) >= 1
    assert abs(len(again) - share * len(labels)) <= 1
    for label in range(5):
        expected = labels.count(label) * len(again) / len(labels)
        assert abs(np.count_nonzero(again.labels == label) - expected) < 1


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=200),
    st.none() | st.integers(1, 7),
    st.none() | st.integers(1, 50),
    st.integers(0, 99),
)
def test_some_classes_and_some_images_of_each(
    labels: list[int], classes: int | None, per_class: int | None, seed: int
) -> None:
    whole = dataset(np.array(labels), 5)
    found = some(whole, classes, per_class, np.random.default_rng(seed))
    if classes is None and per_class is None:
        assert found is whole
        return
    assert isinstance(found, Subset)
    assert (np.diff(found.indices) > 0).all()
    taken = np.unique(found.labels).tolist()
    assert len(taken) == min(classes or 5, len(set(labels)))
    for label in taken:
        assert np.count_nonzero(found.labels == label) == min(per_class or 200, labels.count(label))
    assert list(found.classes) == list(whole.classes)


def test_classes_and_images_are_drawn_anew_by_every_seed() -> None:
    whole = dataset(np.arange(100) % 5, 5)
    drawn = [some(whole, 2, 3, np.random.default_rng(seed)) for seed in range(200)]
    assert {label for one in drawn for label in one.labels.tolist()} == set(range(5))
    assert {index for one in drawn for index in one.indices.tolist()} == set(range(100))  # type: ignore[attr-defined]


def test_outside_is_all_else_whatever_lies_between() -> None:
    whole = dataset(np.arange(100) % 5, 5)
    seen = some(whole, 3, 10, np.random.default_rng(0))
    train, held = hold_out(seen, 6, np.random.default_rng(0))
    rest = outside(whole, held)
    assert len(rest) == 94
    np.testing.assert_array_equal(
        np.sort(np.concatenate([rest.indices, seen.indices[held.indices]])),
        np.arange(100),  # type: ignore[attr-defined]
    )
    np.testing.assert_array_equal(rest.images(np.array([0])), whole.images(rest.indices[:1]))
    assert len(train) == 24


def test_held_out_images_are_chosen_by_the_generator() -> None:
    whole = dataset(np.arange(100) % 5, 5)
    first, again, other = (hold_out(whole, 20, np.random.default_rng(seed))[1].indices for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_too_many_images_to_hold_out() -> None:
    with pytest.raises(
        DataError, match=r"cannot hold 96 images out of 100 with 5 classes; lower data\.holdout"
    ):
        hold_out(dataset(np.arange(100) % 5, 5), 96, np.random.default_rng(0))


def test_images_that_are_the_only_ones_of_their_classes() -> None:
    """Every other class of a sample: no class has a second image, and most of the others none."""
    whole = dataset(np.arange(0, 100, 2), 100)
    rest, held = hold_out(whole, 20, np.random.default_rng(0))
    assert sorted([*rest.labels, *held.labels]) == list(range(0, 100, 2))
    assert len(held) == 20
    hold_out(whole, 49, np.random.default_rng(0))
    with pytest.raises(DataError, match="cannot hold 50 images out of 50"):
        hold_out(whole, 50, np.random.default_rng(0))


def test_a_subset_addresses_the_images_of_the_whole() -> None:
    whole = dataset(np.arange(40) % 4, 4)
    _, held = hold_out(whole, 10, np.random.default_rng(0))
    np.testing.assert_array_equal(held.images(np.array([3, 0])), whole.pixels[held.indices[[3, 0]]])
    assert (held.image_shape, held.classes, held.mean, held.std) == (
        (3, 2, 2),
        whole.classes,
        [0.5] * 3,
        [0.25] * 3,
    )


def test_normalised_pixels() -> None:
    whole = dataset(np.zeros(2, dtype=np.int64), 1)
    pixels = np.array([0, 128, 255], dtype=np.uint8).reshape(1, 3, 1, 1)
    found = normalise(pixels, whole)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.ravel(), [-2, (128 / 255 - 0.5) / 0.25, 2], atol=1e-6)


NETWORK = small_resnet()
WEIGHTS = random_weights(NETWORK, np.random.default_rng(0))


def test_a_model_holds_weights_that_fit() -> None:
    assert Model(NETWORK, WEIGHTS).weights is WEIGHTS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stem.weight": None}, "the model lacks 'stem.weight'"),
        ({"stem.bias": np.zeros(8, "f4")}, "the model has no place for 'stem.bias'"),
        ({"fc.bias": np.zeros(4, "f4")}, r"fc.bias is float32 \(4,\), expected float32 \(3,\)"),
        ({"fc.bias": np.zeros(3)}, r"fc.bias is float64 \(3,\), expected float32"),
        ({"fc.bias": np.array([0, 1, np.nan], "f4")}, "fc.bias holds NaN or infinity"),
        ({"stem_bn.running_var": np.full(8, np.inf, "f4")}, "stem_bn.running_var holds NaN or infinity"),
    ],
)
def test_weights_that_do_not_fit(change: dict[str, np.ndarray | None], message: str) -> None:
    weights = {name: array for name, array in {**WEIGHTS, **change}.items() if array is not None}
    with pytest.raises(FormatError, match=f"weights of small: .*{message}|{message}"):
        Model(NETWORK, weights)
