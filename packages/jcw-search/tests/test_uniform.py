"""Uniform pruning stands beside a front: as fast as its architectures, and valued by the same estimates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import search_toys as toy
from test_stage import make

from jcw_core.run import records
from jcw_core.space.space import Population, SearchSpace
from jcw_search import AssistedSearch, Fixed
from jcw_search.handover import Handover
from jcw_search.phases import Variant
from jcw_search.stages import SearchStage
from jcw_search.uniform import uniform


def beside(
    space: SearchSpace, error: Any = None, variant: Variant = "joint", exact: bool = True
) -> tuple[Handover, dict[str, tuple[Population, np.ndarray]]]:
    evaluators = {"latency": Fixed(toy.latency, exact=exact), "error": error or Fixed(toy.error)}
    ready = AssistedSearch(space=space, evaluators=evaluators, population=8, generations=3, variant=variant)
    found = Handover.of(ready, ready.start(np.random.default_rng(0)))
    return found, dict(uniform(ready, found, 5))


def test_each_kind_has_one_share_and_is_as_fast_as_the_front(space: SearchSpace) -> None:
    front, found = beside(space)
    assert list(found) == ["channels", "weights", "both"]
    for kind, (rows, objectives) in found.items():
        shares = space.encode(rows)
        cut = {"channels": space.is_width, "weights": ~space.is_width}.get(kind, space.is_width | True)
        assert (shares[:, ~cut] == 1).all()
        # Channels and steps are whole, so shares are so to within one of them.
        assert np.ptp(shares[:, cut], axis=1).max() < 0.2
        np.testing.assert_array_equal(objectives[:, 0], toy.latency(space, rows))
        np.testing.assert_array_equal(objectives[:, 1], toy.error(space, rows))
        assert (objectives[:, 0] <= front.objectives[:, 0].max()).all()
        assert 1 <= len(rows) <= 4
    both = found["both"][1][:, 0]
    wanted = np.linspace(front.objectives[:, 0].min(), front.objectives[:, 0].max(), 4)
    assert np.abs(both - wanted).max() < 0.1 * np.ptp(wanted)


@pytest.mark.parametrize("variant", ["channels", "weights"])
def test_a_variant_is_held_to_what_it_reaches(space: SearchSpace, variant: Variant) -> None:
    assert list(beside(space, variant=variant)[1]) == [variant]


def test_a_latency_that_costs_is_asked_for_few(space: SearchSpace) -> None:
    asked: list[int] = []

    def latency(space: SearchSpace, population: Population) -> np.ndarray:
        asked.append(len(population))
        return toy.latency(space, population)

    ready = AssistedSearch(
        space=space,
        evaluators={"latency": Fixed(latency), "error": Fixed(toy.error)},
        population=8,
        generations=3,
    )
    found = Handover.of(ready, ready.start(np.random.default_rng(0)))
    asked.clear()
    kinds = uniform(ready, found, 5)
    assert sum(asked) <= 12
    assert [len(rows) for rows, _ in kinds.values()] == [4, 4, 4]


class Again:
    """Of unseen data, each value is one more; the slowest has none."""

    announced = -1

    def begin_generation(self, population: Population, generation: int) -> bool:
        self.announced = generation
        return False

    def evaluate(self, space: SearchSpace, population: Population) -> np.ndarray:
        return toy.error(space, population)

    def reevaluate(self, space: SearchSpace, population: Population) -> np.ndarray:
        values = toy.error(space, population) + 1
        return np.where(values == values.min(), np.nan, values)


def test_they_are_valued_as_the_front_is_and_what_fails_is_left_out(space: SearchSpace) -> None:
    error = Again()
    _, found = beside(space, error)
    whole = beside(space)[1]
    assert error.announced == 5
    assert min(values[:, 1].min() for _, values in found.values()) > 1
    assert sum(len(rows) for rows, _ in found.values()) < sum(len(rows) for rows, _ in whole.values())


def test_the_front_file_holds_them_and_a_run_that_is_repeated_has_the_same(tmp_path: Path) -> None:
    fronts = []
    for name in ("one", "two"):
        context = make(tmp_path / name)
        SearchStage().run(context)
        fronts.append(records.Front.read(context.path(records.FRONT)))
    assert fronts[0] == fronts[1]
    assert set(fronts[0].uniform) == {"channels", "weights", "both"}
    for candidates in fronts[0].uniform.values():
        assert {"latency", "error"} == candidates[0].objectives.keys()
        context.space.row(candidates[0].architecture)
    without = replace(fronts[0], uniform={})
    without.write(tmp_path / "front.json")
    assert records.Front.read(tmp_path / "front.json") == without
