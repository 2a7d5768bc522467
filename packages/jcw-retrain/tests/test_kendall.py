"""Kendall's tau and its interval against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jcw_core.errors import JcwError
from jcw_retrain.kendall import kendall_tau, tau_interval

stats = pytest.importorskip("scipy.stats")

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.floats(-1, 1)), min_size=3, max_size=30)


@given(PAIRS)
def test_tau_is_scipys(pairs: list[tuple[int, float]]) -> None:
    first, second = np.array(pairs, dtype=float).T
    if len(set(first)) == 1 or len(set(second)) == 1:
        with pytest.raises(JcwError, match="no order to compare"):
            kendall_tau(first, second)
    else:
        expected = stats.kendalltau(first, second).statistic
        assert kendall_tau(first, second) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("noise", [0.2, 1.0, 5.0])
def test_the_interval_is_that_of_scipys_percentile_bootstrap(noise: float) -> None:
    rng = np.random.default_rng(1)
    first = rng.normal(size=20)
    second = first + noise * rng.normal(size=20)
    low, high = tau_interval(first, second, np.random.default_rng(2))
    expected = stats.bootstrap(
        (first, second), lambda x, y: stats.kendalltau(x, y).statistic, paired=True, vectorized=False,
        method="percentile", n_resamples=1000, random_state=np.random.default_rng(3),
    ).confidence_interval  # fmt: skip
    # The ends are quantiles of samples: they vary by a few percent of the width.
    assert abs(low - expected.low) < 0.1 * (high - low)
    assert abs(high - expected.high) < 0.1 * (high - low)
    assert low <= kendall_tau(first, second) <= high


def test_the_interval_covers_the_true_tau_about_as_often_as_it_says() -> None:
    rng, covered, correlation = np.random.default_rng(4), 0, 0.8
    truth = 2 / np.pi * np.arcsin(correlation)  # of two normal variables (Kendall 1949)
    for _ in range(60):
        first = rng.normal(size=20)
        second = correlation * first + (1 - correlation**2) ** 0.5 * rng.normal(size=20)
        low, high = tau_interval(first, second, rng)
        covered += low <= truth <= high
    # Between the 0.1 and the 99.9 % point of what 85 to 97 % give, as small samples cover a little less.
    assert 41 <= covered <= 60
