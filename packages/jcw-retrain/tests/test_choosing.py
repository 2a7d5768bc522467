from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jcw_core.errors import FormatError, JcwError
from jcw_core.network.architecture import Architecture
from jcw_core.run.records import Candidate, Front
from jcw_retrain.choosing import choose


def front(*points: tuple[float, float], units: tuple[str, ...] = ("latency", "error")) -> Front:
    candidates = [
        Candidate(Architecture({"a": number}, {}), dict(zip(units, point, strict=True)))
        for number, point in enumerate(points, start=1)
    ]
    return Front("net", dict.fromkeys(units, ""), candidates)


FRONT = front((1.0, 0.9), (1.5, 0.8), (2.1, 0.6), (3.9, 0.5), (5.0, 0.2), (9.0, 0.1))


def chosen(found: Front, models: int = 1, budgets: tuple[float, ...] = ()) -> list[tuple[float, float]]:
    return [(c.requested_ms, c.candidate.objectives["latency"]) for c in choose(found, models, budgets)]


def test_models_spread_evenly_over_latency() -> None:
    assert chosen(FRONT, 3) == [(1.0, 1.0), (5.0, 5.0), (9.0, 9.0)]
    # Nothing on the front lies between 5 and 7 ms: what stands in is asked for what it takes.
    assert chosen(FRONT, 5) == [(1.0, 1.0), (3.0, 2.1), (3.9, 3.9), (5.0, 5.0), (9.0, 9.0)]
    assert chosen(FRONT, 1) == [(9.0, 9.0)]


@pytest.mark.parametrize("models", [1, 2, 4, 6, 50])
def test_models_differ_and_keep_within_what_was_requested(models: int) -> None:
    found = chosen(FRONT, models)
    assert len(dict(found)) == len({latency for _, latency in found}) == len(found) <= models
    assert all(latency <= requested for requested, latency in found)
    assert found[-1] == (9.0, 9.0)


def test_a_front_whose_latencies_cluster_gives_as_many_models_as_it_has() -> None:
    latencies = [1.0, 9.7, 9.8, 9.9, 10.0]
    clustered = front(*((ms, 1 / ms) for ms in latencies))
    assert [ms for _, ms in chosen(clustered, 5)] == latencies
    assert [ms for _, ms in chosen(clustered, 3)] in ([1.0, 9.7, 10.0], [1.0, 9.8, 10.0])


LATENCIES = st.lists(st.floats(1e-3, 1e3) | st.sampled_from([1.0, 1.001, 5.0]), min_size=1, max_size=30)


@given(LATENCIES, st.booleans(), st.integers(1, 35))
def test_a_front_gives_as_many_different_models_as_were_asked_for(
    latencies: list[float], repeats: bool, models: int
) -> None:
    slow = sorted(latencies if repeats else set(latencies))
    found = choose(front(*((ms, -ms) for ms in slow)), models, ())
    assert len(found) == min(models, len(slow))
    assert len({c.architecture for c in found}) == len(found)
    taken = [c.candidate.objectives["latency"] for c in found]
    requested = [c.requested_ms for c in found]
    assert taken == sorted(taken)
    assert requested == sorted(requested)
    assert all(ms <= budget for ms, budget in zip(taken, requested, strict=True))
    assert max(taken) == max(slow)
    assert models == 1 or min(taken) == min(slow)


@given(st.lists(st.floats(1.0, 100.0), min_size=3, max_size=30, unique=True), st.integers(3, 10))
def test_no_latency_that_was_asked_for_is_passed_over(latencies: list[float], models: int) -> None:
    """Where the front has a model between two neighbouring requests, one of them is chosen."""
    slow = sorted(latencies)
    taken = [ms for _, ms in chosen(front(*((ms, -ms) for ms in slow)), models)]
    targets = np.linspace(slow[0], slow[-1], min(models, len(slow)))
    for low, high in itertools.pairwise(targets):
        between = [ms for ms in slow if low < ms <= high]
        assert not between or max(between) in taken


def test_budgets_take_the_best_within_each() -> None:
    assert chosen(FRONT, budgets=(4.0, 100.0, 1.5)) == [(1.5, 1.5), (4.0, 3.9), (100.0, 9.0)]


def test_what_chose_a_front_chooses_from_it_and_not_what_is_reported() -> None:
    """The reported error would be a lucky one if it had a say."""
    points = [({"latency": 1.0, "error": 0.2}, 0.4), ({"latency": 2.0, "error": 0.3}, 0.3)]
    candidates = [
        Candidate(Architecture({"a": 4}, {}), reported, {"error": estimate}) for reported, estimate in points
    ]
    assert chosen(Front("net", {"latency": "ms", "error": ""}, candidates), budgets=(3.0,)) == [(3.0, 2.0)]


def test_two_budgets_with_one_best_model_give_it_once() -> None:
    assert chosen(FRONT, budgets=(6.0, 5.5)) == [(5.5, 5.0)]


def test_a_budget_that_nothing_meets_names_itself_and_the_fastest() -> None:
    with pytest.raises(JcwError, match=r"within 0\.5 ms; the fastest takes 1 ms"):
        chosen(FRONT, budgets=(4.0, 0.5))


def test_other_objectives_stand_in_for_error() -> None:
    assert chosen(front((1.0, 3.0), (2.0, 1.0), units=("latency", "loss")), budgets=(2.0,)) == [(2.0, 2.0)]


def test_fronts_without_latency_or_models_are_refused() -> None:
    with pytest.raises(FormatError, match="no objective 'latency'"):
        choose(front((1.0, 2.0), units=("loss", "error")), 3, ())
    with pytest.raises(FormatError, match="is empty"):
        choose(front(), 3, ())
