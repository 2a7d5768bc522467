"""Crossover and mutation, against pymoo and the distributions of their papers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymoo.operators.crossover.sbx import cross_sbx
from pymoo.operators.mutation.pm import mut_pm
from scipy.stats import ks_2samp, kstest

from jcw_core.errors import JcwError
from jcw_search.operators import (
    Variation,
    crossover,
    mutation_step,
    polynomial_mutation,
    sbx,
    spread_factor,
)


@pytest.mark.parametrize("mu", [0.0, 0.5, 2.0, 15.0])
def test_spread_factor_has_the_distribution_of_deb_and_agrawal(mu: float, rng: np.random.Generator) -> None:
    def cdf(u: np.ndarray) -> np.ndarray:
        # integral of 0.5 (mu + 1) u^mu up to 1, then of 0.5 (mu + 1) / u^(mu + 2)
        return np.where(u <= 1, 0.5 * u ** (mu + 1), 1 - 0.5 * np.maximum(u, 1e-300) ** -(mu + 1.0))

    assert kstest(spread_factor(rng.random(20_000), mu), cdf).pvalue > 1e-3


def test_children_of_a_pair_keep_its_mean_and_what_is_not_crossed(rng: np.random.Generator) -> None:
    first, second = rng.random((2, 4000, 6))
    one, two = sbx(first, second, 0.5, rng)
    np.testing.assert_allclose(one + two, first + second)
    kept = (one == first) & (two == second)
    assert kept.mean() == pytest.approx(0.5, abs=0.02)
    # Each variable is crossed, and exchanged, on its own.
    for mask in (kept, np.abs(one - first) > np.abs(two - first)):
        assert np.abs(np.corrcoef(mask.T) - np.eye(6)).max() < 0.08


@pytest.mark.parametrize("mu", [0.5, 3.0, 15.0])
@pytest.mark.parametrize("apart", [0.8, -0.05])
def test_crossover_agrees_with_pymoo_in_distribution(
    mu: float, apart: float, rng: np.random.Generator
) -> None:
    """Bounds far away, since ours knows none: children are clipped afterwards, as in the paper."""
    first = np.full((20_000, 1), 0.1)
    ours = sbx(first, first + apart, mu, rng)
    settings = {"eta": np.full((20_000, 1), mu), "prob_var": 0.5, "prob_bin": np.full((20_000, 1), 0.5)}
    theirs = cross_sbx(
        np.stack([first, first + apart]), np.array([-1e7]), np.array([1e7]), **settings, random_state=rng
    )
    for mine, other, parent in zip(ours, theirs, (first, first + apart), strict=True):
        assert np.mean(mine == parent) == pytest.approx(np.mean(other == parent), abs=0.02)
        assert ks_2samp(mine.ravel(), other.ravel()).pvalue > 1e-3
    # Children agree pair by pair, too.
    assert ks_2samp((ours[0] - ours[1]).ravel(), (theirs[0] - theirs[1]).ravel()).pvalue > 1e-3


@pytest.mark.parametrize(("n", "size"), [(2, 5), (7, 8), (64, 64)])
def test_crossover_pairs_two_different_parents(n: int, size: int, rng: np.random.Generator) -> None:
    # Each parent has ones of its own, which show in each child which two it came from.
    children, origin = crossover(np.eye(n).repeat(30, axis=1), size, 0.5, rng)
    assert children.shape == (size, 30 * n)
    for child, parent in zip(children.reshape(size, n, 30), origin, strict=True):
        assert set(np.flatnonzero((child != 0).any(axis=1))) > {parent}
        assert np.count_nonzero((child != 0).any(axis=1)) == 2
        assert (child[parent] == 1).sum() > 3, "what is not crossed is its parent's"


def test_every_parent_is_paired_equally_often(rng: np.random.Generator) -> None:
    _, origin = crossover(np.eye(8), 80_000, 0.5, rng)
    np.testing.assert_allclose(np.bincount(origin) / 10_000, 1, atol=0.05)


@pytest.mark.parametrize("position", [0.0, 0.1, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("mu", [1.0, 15.0])
def test_mutation_step_inverts_the_polynomial_distribution(
    position: float, mu: float, rng: np.random.Generator
) -> None:
    r = rng.random(1000)
    step = mutation_step(np.full(1000, position), r, mu)
    assert (step >= -position - 1e-12).all()
    assert (step <= 1 - position + 1e-12).all()
    # P(delta) ~ (1 - |delta|)^mu, cut at the bounds, half of the mass on either side
    power, room = mu + 1, np.where(r <= 0.5, position, 1 - position)
    tail = (1 - room) ** power
    inside = ((1 - np.abs(step)) ** power - tail) / np.where(room > 0, 1 - tail, 1)
    expected = np.where(r <= 0.5, 2 * r, 2 * (1 - r))
    usable = room > 0
    np.testing.assert_allclose(inside[usable], expected[usable], atol=1e-9)
    assert (step[~usable] == 0).all()


def test_mutation_agrees_with_pymoo_in_distribution(rng: np.random.Generator) -> None:
    low, high = np.array([0.1]), np.array([0.7])
    features = np.full((20_000, 1), 0.15)
    ours = polynomial_mutation(features, low, high, 15, 0.5, rng)
    theirs = mut_pm(features, low, high, np.full(20_000, 15.0), np.full(20_000, 0.5), False, random_state=rng)
    assert np.mean(ours != features) == pytest.approx(0.5, abs=0.02)
    assert ks_2samp(ours.ravel(), theirs.ravel()).pvalue > 1e-3


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 20), st.floats(0, 30), st.floats(0, 1))
def test_children_stay_within_bounds_and_fixed_dimensions_stay_put(
    seed: int, n: int, size: int, mu: float, probability: float
) -> None:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 0.5, 6)
    high = np.where(rng.random(6) < 0.3, low, rng.uniform(0.5, 1, 6))
    parents = low + rng.random((n, 6)) * (high - low)
    children, origin = Variation(mu, mu, probability)(parents, low, high, size, rng)
    assert children.shape == (size, 6)
    assert ((children >= low) & (children <= high)).all()
    np.testing.assert_array_equal(children[:, low == high], np.tile(low[low == high], (size, 1)))
    assert ((origin >= 0) & (origin < n)).all()


@pytest.mark.parametrize("bad", [{"mu_c": -1}, {"mu_m": -0.1}, {"probability": 1.1}, {"mu_c": float("nan")}])
def test_impossible_parameters_are_refused(bad: Any) -> None:
    with pytest.raises(JcwError, match="mu_c and mu_m must be"):
        Variation(**bad)
