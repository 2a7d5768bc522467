"""Fronts, crowding and hypervolume, against pymoo and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pymoo.operators.survival.rank_and_crowding.metrics import get_crowding_function
from pymoo.util.nds.fast_non_dominated_sort import fast_non_dominated_sort

from jcw_search.pareto import crowding_distance, fronts, hypervolume, non_dominated

TIED = st.integers(0, 4).map(float)
ANY = st.floats(-1e3, 1e3)
OBJECTIVES = st.tuples(st.integers(1, 30), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=TIED) | arrays(np.float64, shape, elements=ANY)
)


def dominates(a: np.ndarray, b: np.ndarray) -> bool:
    return (a <= b).all() and (a < b).any()


@settings(max_examples=200)
@given(OBJECTIVES)
def test_fronts_agree_with_pymoo(objectives: np.ndarray) -> None:
    ours = fronts(objectives)
    theirs = fast_non_dominated_sort(objectives)
    assert [sorted(front) for front in theirs] == [front.tolist() for front in ours]


@settings(max_examples=200)
@given(OBJECTIVES)
def test_crowding_agrees_with_pymoo(objectives: np.ndarray) -> None:
    expected = get_crowding_function("cd").do(objectives) * objectives.shape[1]
    np.testing.assert_allclose(crowding_distance(objectives), expected, rtol=1e-9, atol=1e-12)


@settings(max_examples=100)
@given(OBJECTIVES)
def test_the_front_is_what_nothing_dominates(objectives: np.ndarray) -> None:
    found = non_dominated(objectives)
    brute = [i for i, a in enumerate(objectives) if not any(dominates(b, a) for b in objectives)]
    assert set(found) <= set(brute)
    assert {tuple(objectives[i]) for i in brute} == {tuple(objectives[i]) for i in found}
    assert len({tuple(objectives[i]) for i in found}) == len(found)
    assert (np.diff(objectives[found, 0]) >= 0).all()


def test_nothing_has_no_front() -> None:
    assert fronts(np.empty((0, 2))) == []
    assert len(non_dominated(np.empty((0, 2)))) == 0
    assert len(crowding_distance(np.empty((0, 2)))) == 0


LIMITS = np.array([[10.0, 0.9], [50.0, 0.2]])


def test_hypervolume_of_one_point_is_its_box() -> None:
    # latency half-way between the limits, error a third of the worst
    assert hypervolume(np.array([[30.0, 0.3]]), LIMITS) == pytest.approx(0.5 * (2 / 3))
    assert hypervolume(np.array([[10.0, 0.0]]), LIMITS) == pytest.approx(1)
    assert hypervolume(np.array([[50.0, 0.2], [10.0, 0.9]]), LIMITS) == 0
    assert hypervolume(np.empty((0, 2)), LIMITS) == 0


def test_hypervolume_is_the_share_of_the_box_that_is_dominated(rng: np.random.Generator) -> None:
    points = rng.uniform([10, 0], [50, 0.9], (6, 2))
    darts = rng.uniform([10, 0], [50, 0.9], (40_000, 2))
    share = (points[:, None] <= darts).all(axis=2).any(axis=0).mean()
    assert hypervolume(points, LIMITS) == pytest.approx(share, abs=0.01)


def test_hypervolume_without_a_range_is_zero_not_an_error() -> None:
    assert hypervolume(np.array([[1.0, 0.5]]), np.array([[1.0, 0.5], [1.0, 0.5]])) == 0
