"""Evaluations that several processes share: each values its part, and what fails in one fails for the search alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import search_toys as toy
from thread_ranks import in_threads

from jcw_core.errors import DataError, JcwError, PluginError
from jcw_core.protocols import Reevaluating
from jcw_core.ranks import RankError, Ranks
from jcw_core.space.space import Population, SearchSpace
from jcw_search.evaluation import value_of
from jcw_search.pareto import Floats
from jcw_search.spread import end_search, help_search, spread

BAD = 5
"""The row whose evaluation fails, where one does."""


class Counting:
    """Says which rows it has valued; one of them may fail."""

    def __init__(self, rows: Population, failure: JcwError | None = None) -> None:
        self.rows, self.failure = rows, failure
        self.begun, self.valued = list[int](), list[int]()

    def begin_generation(self, population: Population, generation: int) -> bool:
        self.begun.append(generation)
        return True

    def evaluate(self, space: SearchSpace, population: Population) -> Floats:
        for row in population:
            (index,) = np.flatnonzero((self.rows == row).all(1))
            if index == BAD and self.failure is not None:
                raise self.failure
            self.valued.append(int(index))
        return toy.error(space, population)

    def reevaluate(self, space: SearchSpace, population: Population) -> Floats:
        return -self.evaluate(space, population)


class Exact(Counting):
    exact = True


@pytest.fixture
def rows(space: SearchSpace) -> Population:
    return space.sample(11, np.random.default_rng(0))


def together(
    size: int, space: SearchSpace, evaluators: list[Counting], search: Callable[[Counting], object]
) -> object:
    """What ``search`` returns in the first process, where the others help it."""

    def work(ranks: Ranks) -> object:
        own = {"error": evaluators[ranks.rank]}
        if not ranks.is_first:
            help_search(own, space, ranks)
            return None
        found = search(spread(own, ranks)["error"])  # type: ignore[arg-type]
        end_search(ranks)
        return found

    return in_threads(size, work)[0]


@pytest.mark.parametrize("size", [2, 3, 20])
def test_each_row_is_valued_once_and_values_come_in_order(
    space: SearchSpace, rows: Population, size: int
) -> None:
    each = [Counting(rows) for _ in range(size)]

    def search(evaluator: Counting) -> tuple[Floats, Floats]:
        assert evaluator.begin_generation(rows, 4)
        assert isinstance(evaluator, Reevaluating)
        found = evaluator.evaluate(space, rows)
        assert sorted(index for one in each for index in one.valued) == list(range(len(rows)))
        return found, evaluator.reevaluate(space, rows)

    found, again = together(size, space, each, search)  # type: ignore[misc]
    assert np.array_equal(found, toy.error(space, rows))
    assert np.array_equal(again, -toy.error(space, rows))
    assert all(one.begun == [4] for one in each)


def test_a_row_that_fails_anywhere_has_no_value_and_the_others_have(
    space: SearchSpace, rows: Population
) -> None:
    each = [Counting(rows, DataError("a damaged image")) for _ in range(2)]
    found = together(2, space, each, lambda one: value_of(space, "error", one, rows, 11))
    assert np.array_equal(np.flatnonzero(np.isnan(found)), [BAD])  # type: ignore[call-overload]


@pytest.mark.parametrize("error", [RankError("the other is gone"), PluginError("of another shape")])
def test_what_no_row_is_to_blame_for_ends_the_search(
    space: SearchSpace, rows: Population, error: JcwError
) -> None:
    with pytest.raises(type(error)):
        value_of(space, "error", Counting(rows, error), rows, 1)


def test_exact_evaluators_are_asked_in_the_first_process_alone(space: SearchSpace, rows: Population) -> None:
    exact = Exact(rows)
    (found,) = spread({"latency": exact}, in_threads(2, lambda ranks: ranks)[0]).values()
    assert found is exact
    (found,) = spread({"error": Counting(rows)}, Ranks()).values()
    assert isinstance(found, Counting)
