"""What is reported of a front was not what chose it, where an objective has data of its own for that."""

from __future__ import annotations

import numpy as np
import pytest
import search_toys as toy

from jcw_core.space.space import Population, SearchSpace
from jcw_search import AssistedSearch, Evolution, Fixed, search
from jcw_search.algorithms import Algorithm
from jcw_search.handover import Handover


class Estimated:
    """Noisy while it is searched; evaluated again, another draw of the noise, and some fail."""

    def __init__(self, fails: bool = False) -> None:
        self.rng, self.fails = np.random.default_rng(3), fails
        self.announced: list[int] = []
        self.again: list[Population] = []

    def begin_generation(self, population: Population, generation: int) -> bool:
        self.announced.append(generation)
        return False

    def evaluate(self, space: SearchSpace, population: Population) -> np.ndarray:
        return toy.error(space, population) + 0.05 * self.rng.standard_normal(len(population))

    def reevaluate(self, space: SearchSpace, population: Population) -> np.ndarray:
        self.again.append(population)
        return np.where(
            self.fails & (np.arange(len(population)) == 1), np.nan, toy.error(space, population) + 1
        )


@pytest.mark.parametrize("algorithm", ["assisted", "plain"])
def test_the_front_is_evaluated_again_once(space: SearchSpace, algorithm: Algorithm) -> None:
    error = Estimated()
    evaluators = {"latency": Fixed(toy.latency, exact=True), "error": error}
    result = search(space, evaluators, algorithm=algorithm, population=8, generations=6)
    (rows,) = error.again
    np.testing.assert_array_equal(rows, result.values[result.front])
    assert error.announced == list(range(8)), "and announced as one more generation"
    np.testing.assert_allclose(result.reported[:, 1], toy.error(space, rows) + 1)
    np.testing.assert_array_equal(result.reported[:, 0], toy.latency(space, rows))
    # One for each of as many slices of latency as the population has members.
    assert len(rows) <= 8
    assert (np.diff(result.reported[:, 0]) > 0).all()


def test_what_fails_then_is_dropped_and_named(space: SearchSpace) -> None:
    error = Estimated(fails=True)
    result = search(
        space, {"latency": Fixed(toy.latency, exact=True), "error": error}, population=8, generations=4
    )
    (rows,) = error.again
    np.testing.assert_array_equal(result.failed, rows[1:2])
    assert np.isfinite(result.reported).all()


@pytest.mark.parametrize("kind", [AssistedSearch, Evolution])
def test_estimates_that_chose_are_kept_beside_what_is_reported(
    space: SearchSpace, kind: type[AssistedSearch] | type[Evolution]
) -> None:
    ready = kind(
        space=space,
        evaluators={"latency": Fixed(toy.latency), "error": Estimated()},
        population=8,
        generations=3,
    )
    state = ready.start(np.random.default_rng(0))
    found = Handover.of(ready, state)
    assert found.again == ("error",)
    assert (np.diff(found.estimates[:, 1]) < 0).all(), "the front falls by what chose it"
    assert (np.abs(found.objectives[:, 1] - found.estimates[:, 1]) > 0.5).all()
