"""Constraints: everything that is searched meets them, and what nothing can meet is refused at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import search_toys as toy
from hypothesis import given, settings
from hypothesis import strategies as st

from jcw_core.backbones.resnet import RESNET18
from jcw_core.errors import JcwError
from jcw_core.space.costs import macs, model_bytes, weights
from jcw_core.space.space import Population, SearchSpace
from jcw_search import Constraints, Fixed, search
from jcw_search.algorithms import Algorithm
from jcw_search.constraints import Allowed
from jcw_search.phases import Variant

SPACE = SearchSpace.of(toy.network())
CORNERS = np.stack([SPACE.low, SPACE.high])
COSTS: dict[str, Callable[[SearchSpace, Population], np.ndarray]] = {
    "max_latency_ms": toy.latency,
    "max_weights": weights,
    "max_macs": macs,
    "max_bytes": model_bytes,
}
WIDE = SearchSpace.of(RESNET18.build(num_classes=10, input_size=32), defaults=RESNET18.bounds)


def between(key: str, share: float) -> float:
    """A value of a cost that lies between those of the smallest and largest architecture."""
    low, high = COSTS[key](SPACE, CORNERS)
    return float(low + share * (high - low))


def evaluators() -> dict[str, Fixed]:
    return {"latency": Fixed(toy.latency, exact=True), "error": Fixed(toy.error)}


@pytest.mark.parametrize("algorithm", ["assisted", "plain"])
@pytest.mark.parametrize("variant", ["joint", "channels", "weights", "sequential"])
@pytest.mark.parametrize(
    "limits",
    [
        {"max_latency_ms": 0.4},
        {"min_latency_ms": 0.5},
        {"min_latency_ms": 0.5, "max_latency_ms": 0.55},
        {"max_weights": 0.5, "min_latency_ms": 0.2},
        {"max_macs": 0.6, "max_bytes": 0.5},
    ],
)
def test_all_that_is_searched_meets_the_constraints(
    algorithm: Algorithm, variant: Variant, limits: dict[str, float]
) -> None:
    values = {key: between(key.replace("min", "max"), share) for key, share in limits.items()}
    result = search(
        SPACE, evaluators(), algorithm=algorithm, population=8, generations=4, variant=variant,
        constraints=Constraints(**values),
    )  # fmt: skip
    assert len(result.values) >= 20
    for key, value in values.items():
        cost = COSTS[key.replace("min", "max")](SPACE, result.values)
        assert (cost >= value).all() if key.startswith("min") else (cost <= value).all()
    assert len(result.front) > 1


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95), st.floats(0, 0.5))
def test_architectures_are_moved_no_further_than_they_must(seed: int, share: float, width: float) -> None:
    low = between("max_latency_ms", share)
    allowed = Allowed(Constraints(low, low + width), SPACE, toy.latency)
    rows = SPACE.sample(50, np.random.default_rng(seed))
    moved = allowed.within(rows, SPACE.low, SPACE.high)
    assert allowed.mask(moved).all()
    np.testing.assert_array_equal(SPACE.decode(SPACE.encode(moved)), moved)
    met = rows[allowed.mask(rows)]
    assert {row.tobytes() for row in met} <= {row.tobytes() for row in moved}


@pytest.mark.parametrize("algorithm", ["assisted", "plain"])
@pytest.mark.parametrize("key", [*COSTS, "min_latency_ms"])
def test_what_nothing_can_meet_is_refused_with_the_nearest_value(key: str, algorithm: Algorithm) -> None:
    calls: list[int] = []

    def error(space: SearchSpace, population: Population) -> np.ndarray:
        calls.append(len(population))
        return toy.error(space, population)

    functions = {"latency": Fixed(toy.latency, exact=True), "error": Fixed(error)}
    lowest, highest = COSTS.get(key, toy.latency)(SPACE, CORNERS)
    wanted = highest * 1.1 if key.startswith("min") else lowest * 0.9
    with pytest.raises(JcwError, match=f"^{key}: no architecture") as refused:
        search(SPACE, functions, algorithm=algorithm, constraints=Constraints(**{key: wanted}))
    assert not calls, "before anything is evaluated"
    (nearest,) = re.findall(r"give at (?:least|most) ([\d.]+)$", str(refused.value))
    assert float(nearest) == pytest.approx(highest if key.startswith("min") else lowest, rel=2e-3)
    works = Constraints(**{key: float(nearest)})
    search(SPACE, evaluators(), algorithm=algorithm, population=4, generations=1, constraints=works)


def test_constraints_that_exclude_each_other_are_refused_with_the_nearest_value() -> None:
    both = {"min_latency_ms": between("max_latency_ms", 0.9), "max_weights": between("max_weights", 0.1)}
    with pytest.raises(JcwError, match=r"^min_latency_ms: no architecture was found") as refused:
        search(SPACE, evaluators(), constraints=Constraints(**both))
    (nearest,) = re.findall(r"nearest takes ([\d.]+), give", str(refused.value))
    both["min_latency_ms"] = float(nearest)
    search(SPACE, evaluators(), population=4, generations=1, constraints=Constraints(**both))


def test_an_upside_down_window_and_a_latency_that_is_not_exact_are_refused() -> None:
    with pytest.raises(JcwError, match="min_latency_ms: 3 is above max_latency_ms = 2; give at most that"):
        Constraints(3, 2)
    inexact: dict[str, Any] = {name: Fixed(one.function) for name, one in evaluators().items()}
    with pytest.raises(JcwError, match=r"max_latency_ms: .*'latency' does not say that it is"):
        search(SPACE, inexact, constraints=Constraints(None, 2))


@pytest.mark.parametrize("variant", ["joint", "channels", "weights", "sequential"])
@pytest.mark.parametrize("algorithm", ["assisted", "plain"])
def test_a_population_larger_than_the_space_is_refused(variant: Variant, algorithm: Algorithm) -> None:
    space = toy.tiny(8)
    rows = toy.everything(space)
    fixed = {
        "joint": [],
        "channels": ~space.is_width,
        "weights": space.is_width,
        "sequential": ~space.is_width,
    }
    rows = (
        rows[(rows[:, fixed[variant]] == space.high[fixed[variant]]).all(axis=1)]
        if variant != "joint"
        else rows
    )
    with pytest.raises(JcwError, match=rf"^population: 1000 is more than .*give at most {len(rows)}$"):
        search(space, evaluators(), algorithm=algorithm, population=1000, variant=variant)
    search(space, evaluators(), algorithm=algorithm, population=len(rows), generations=2, variant=variant)
