from __future__ import annotations

import pytest

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
    assert chosen(FRONT, 5) == [(1.0, 1.0), (3.0, 2.1), (5.0, 5.0), (7.0, 3.9), (9.0, 9.0)]
    assert chosen(FRONT, 1) == [(9.0, 9.0)]


@pytest.mark.parametrize("models", [1, 2, 4, 6, 50])
def test_models_differ_and_keep_within_what_was_requested(models: int) -> None:
    found = chosen(FRONT, models)
    assert len(dict(found)) == len({latency for _, latency in found}) == len(found) <= models
    assert all(latency <= requested for requested, latency in found)
    assert found[-1] == (9.0, 9.0)


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
