"""Weight groups and masks, against loops that follow the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jcw_core.network.weight_groups import (
    density_mask,
    group_norms,
    kept_groups,
    weight_density,
    weight_groups,
)

SHAPES = st.tuples(st.integers(1, 11), st.integers(1, 4)) | st.tuples(
    st.integers(1, 11), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)
)


def _weights(shape: tuple[int, ...], seed: int, *, ties: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.integers(-1, 2, shape) if ties else rng.normal(size=shape)).astype(np.float32)


@given(SHAPES, st.integers(0, 2**32 - 1), st.sampled_from([1, 2]))
def test_norms_are_those_of_four_adjacent_output_channels(
    shape: tuple[int, ...], seed: int, order: int
) -> None:
    weight = _weights(shape, seed, ties=False)
    norms = group_norms(weight, order)
    assert norms.shape == (weight_groups(shape[0]), *shape[1:])
    for position in np.ndindex(*norms.shape):
        members = weight[(slice(4 * position[0], 4 * position[0] + 4), *position[1:])]
        assert norms[position] == pytest.approx(np.linalg.norm(members.astype(np.float64), order))


@given(SHAPES, st.integers(0, 2**32 - 1), st.floats(0, 1), st.sampled_from([1, 2]), st.booleans())
def test_mask_keeps_the_strongest_groups(
    shape: tuple[int, ...], seed: int, density: float, order: int, ties: bool
) -> None:
    weight = _weights(shape, seed, ties=ties)
    mask = density_mask(weight, density, order)
    assert mask.shape == weight.shape
    norms = group_norms(weight, order)
    kept = np.array([mask[(4 * p[0], *p[1:])] for p in np.ndindex(*norms.shape)]).reshape(norms.shape)
    np.testing.assert_array_equal(np.repeat(kept, 4, axis=0)[: shape[0]], mask)
    # Sorting pairs of (falling norm, rising position) is the definition, ties included.
    ranked = sorted(range(norms.size), key=lambda i: (-norms.flat[i], i))
    assert set(np.flatnonzero(kept)) == set(ranked[: kept_groups(density, norms.size)])


@given(st.floats(0, 1), st.integers(1, 5000))
def test_number_of_groups_kept(density: float, groups: int) -> None:
    kept = kept_groups(density, groups)
    if density == 0:
        assert kept == 0
    else:
        assert 1 <= kept <= groups
        assert kept == 1 or abs(kept - density * groups) <= 0.5 + 1e-9
    assert kept_groups(1.0, groups) == groups


@given(st.lists(st.floats(0, 1), min_size=2, max_size=2).map(sorted), st.integers(0, 2**32 - 1))
def test_masks_are_nested(densities: list[float], seed: int) -> None:
    weight = _weights((10, 3, 2, 2), seed, ties=True)
    low, high = (density_mask(weight, d) for d in densities)
    assert (low <= high).all()


@given(st.floats(0.01, 1), st.integers(0, 2**32 - 1))
def test_density_of_a_pruned_weight(density: float, seed: int) -> None:
    weight = np.abs(_weights((13, 5, 3, 3), seed, ties=False)) + 1
    pruned = weight * density_mask(weight, density)
    groups = weight_groups(13) * 45
    assert weight_density(pruned) == kept_groups(density, groups) / groups
