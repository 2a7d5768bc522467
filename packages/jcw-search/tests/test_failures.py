"""Failures: dropped, counted and named, in whichever generation and whatever form they come."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest
import search_toys as toy

from jcw_core.errors import DataError, JcwError
from jcw_core.space.space import Population, SearchSpace
from jcw_search import Fixed, search
from jcw_search.algorithms import Algorithm

ALGORITHMS: list[Algorithm] = ["assisted", "plain"]


def is_bad(population: Population) -> np.ndarray:
    """A tenth of the architectures, by their digits."""
    return np.array([zlib.crc32(row.tobytes()) % 10 == 0 for row in population])


Function = Callable[[SearchSpace, Population], np.ndarray]


def giving(value: float) -> Callable[[Function], Function]:
    return lambda function: lambda space, rows: np.where(is_bad(rows), value, function(space, rows))


def raising(error: Exception) -> Callable[[Function], Function]:
    def spoilt(function: Function) -> Function:
        def found(space: SearchSpace, population: Population) -> np.ndarray:
            if is_bad(population).any():
                raise error
            return function(space, population)

        return found

    return spoilt


RAISING = [raising(DataError("a damaged image")), raising(RuntimeError("of somebody else's library"))]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("spoilt", [giving(np.nan), giving(np.inf), giving(-np.inf), *RAISING])
def test_what_fails_is_dropped_and_named(
    space: SearchSpace, algorithm: Algorithm, column: int, spoilt: Callable[[Function], Function]
) -> None:
    functions = [toy.latency, toy.error]
    functions[column] = spoilt(functions[column])
    evaluators = dict(zip(("latency", "error"), map(Fixed, functions), strict=True))
    result = search(space, evaluators, algorithm=algorithm, population=16, generations=5)
    assert is_bad(result.failed).all()
    assert not is_bad(result.values).any()
    assert np.isfinite(result.objectives).all()
    assert len(result.failed) > 3
    assert len(np.unique(result.failed, axis=0)) == len(result.failed), "none is tried again"
    assert len(result.front) > 3


class Breaking:
    """All is well until a generation in which everything, or every parent, fails."""

    def __init__(self, generation: int, stale: bool) -> None:
        self.last, self.stale = generation, stale

    def begin_generation(self, population: Population, generation: int) -> bool:
        self.generation = generation
        return self.stale and generation > 0

    def evaluate(self, space: SearchSpace, population: Population) -> np.ndarray:
        return np.where(self.generation >= self.last, np.nan, toy.error(space, population))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("generation", "stale"), [(0, False), (2, False), (2, True)])
def test_an_objective_that_fails_for_all_is_named(
    space: SearchSpace, algorithm: Algorithm, generation: int, stale: bool
) -> None:
    evaluators = {"latency": Fixed(toy.latency), "mistake": Breaking(generation, stale)}
    with pytest.raises(JcwError, match=r"objectives: 'mistake' gave no finite value for any of \d+ arch"):
        search(space, evaluators, algorithm=algorithm, population=8, generations=4)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_raises_for_all_raises(space: SearchSpace, algorithm: Algorithm) -> None:
    def broken(space: SearchSpace, population: Population) -> np.ndarray:
        raise DataError("no images")

    with pytest.raises(DataError, match="no images"):
        search(space, {"latency": Fixed(toy.latency), "error": Fixed(broken)}, algorithm=algorithm)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", ["latency", "error"])
def test_a_constant_objective_is_refused(space: SearchSpace, algorithm: Algorithm, name: str) -> None:
    functions = {"latency": toy.latency, "error": toy.error, name: lambda s, p: np.full(len(p), 0.9)}
    evaluators = {key: Fixed(function) for key, function in functions.items()}
    with pytest.raises(JcwError, match=rf"objectives: '{name}' is 0\.9 for each of the first \d+"):
        search(space, evaluators, algorithm=algorithm)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("corner", ["low", "high"])
def test_a_corner_may_fail(space: SearchSpace, algorithm: Algorithm, corner: str) -> None:
    def error(space: SearchSpace, population: Population) -> np.ndarray:
        return np.where(
            (population == getattr(space, corner)).all(axis=1), np.nan, toy.error(space, population)
        )

    evaluators = {"latency": Fixed(toy.latency), "error": Fixed(error)}
    result = search(space, evaluators, algorithm=algorithm, population=8, generations=4)
    np.testing.assert_array_equal(result.failed, [getattr(space, corner)])
    assert 0 < result.hypervolume[-1] < 1
