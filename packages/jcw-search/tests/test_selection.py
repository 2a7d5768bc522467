"""Selection strategies, against a slow reference and pymoo."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymoo.core.individual import Individual
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.operators.survival.rank_and_crowding import RankAndCrowding

from jcw_core.errors import JcwError
from jcw_search import Nsga2Selection, UniformSelection

LIMITS = np.array([[0.0, 1.0], [1.0, 0.0]])


def dominates(a: np.ndarray, b: np.ndarray) -> bool:
    return (a <= b).all() and (a < b).any()


def slow_fronts(objectives: np.ndarray) -> list[list[int]]:
    left, found = list(range(len(objectives))), []
    while left:
        best = [i for i in left if not any(dominates(objectives[j], objectives[i]) for j in left)]
        found.append(best)
        left = [i for i in left if i not in best]
    return found


@settings(max_examples=80)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(2, 9), st.booleans())
def test_uniform_takes_fronts_of_the_targets_in_turn(seed: int, n: int, targets: int, tied: bool) -> None:
    rng = np.random.default_rng(seed)
    objectives = rng.integers(0, 5, (n, 2)) / 5 if tied else rng.random((n, 2))
    size = int(rng.integers(1, n + 1))
    chosen = UniformSelection(targets).select(objectives, size, rng, limits=LIMITS)
    assert len(set(chosen.tolist())) == size

    by_target = [
        slow_fronts(np.stack([np.abs(i / (targets - 1) - objectives[:, 0]), objectives[:, 1]], axis=1))
        for i in range(targets)
    ]
    expected = []
    for stage in range(n):
        for own in by_target:
            front = [i for i in (own[stage] if stage < len(own) else []) if i not in expected]
            if len(expected) + len(front) > size:
                kept = [i for i in chosen if i not in expected]
                assert set(kept) <= set(front)
                assert_least_crowded(objectives[:, 0], front, kept)
                return
            expected += front
            if len(expected) == size:
                assert set(chosen.tolist()) == set(expected)
                return
    pytest.fail("the fronts hold every candidate, so they fill any population")


def assert_least_crowded(latency: np.ndarray, front: list[int], kept: list[int]) -> None:
    """No one left out has a wider gap around it than one who was kept."""
    if np.ptp(latency[front]) == 0:
        return
    order = sorted(front, key=lambda i: latency[i])
    gap = dict.fromkeys((order[0], order[-1]), np.inf)
    gap |= {b: latency[c] - latency[a] for a, b, c in zip(order, order[1:], order[2:], strict=False)}
    left = [i for i in front if i not in kept]
    if kept and left:
        assert min(gap[i] for i in kept) >= max(gap[i] for i in left) - 1e-12


@settings(max_examples=80)
@given(st.integers(0, 2**32 - 1), st.integers(3, 40))
def test_nsga2_agrees_with_pymoo(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    objectives = rng.random((n, 2))
    size = int(rng.integers(1, n + 1))
    chosen = Nsga2Selection().select(objectives, size, rng, limits=LIMITS)
    pool = Population.create(*(Individual(F=row, index=i) for i, row in enumerate(objectives)))
    survivors = RankAndCrowding().do(
        Problem(n_var=1, n_obj=2), pool, n_survive=size, random_state=np.random.default_rng(0)
    )
    ours, theirs = objectives[chosen], np.array([s.F for s in survivors])
    whole = [front for front in slow_fronts(objectives) if set(front) <= set(chosen.tolist())]
    assert {tuple(objectives[i]) for front in whole for i in front} <= set(map(tuple, theirs))
    # Of the last front both keep the least crowded; two ends of a front tie at infinity.
    if size - sum(map(len, whole)) >= 2 or size == sum(map(len, whole)):
        assert set(map(tuple, ours)) == set(map(tuple, theirs))


def test_uniform_keeps_slow_and_accurate_architectures_that_nsga2_also_has(rng: np.random.Generator) -> None:
    latency = np.concatenate([rng.uniform(0, 0.1, 90), rng.uniform(0.9, 1, 10)])
    objectives = np.stack([latency, rng.random(100)], axis=1)
    chosen = UniformSelection(2).select(objectives, 20, rng, limits=LIMITS)
    assert (latency[chosen] > 0.9).any()
    assert (latency[chosen] < 0.1).any()


def test_a_single_target_is_refused() -> None:
    with pytest.raises(JcwError, match="at least 2"):
        UniformSelection(1)
