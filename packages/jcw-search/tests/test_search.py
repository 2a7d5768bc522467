"""The plain search: brute force on tiny spaces, invariants, bad input."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import search_toys as toy

from jcw_core.errors import JcwError, PluginError
from jcw_core.protocols import Selection
from jcw_core.space.bounds import Bound
from jcw_core.space.space import SearchSpace
from jcw_search import Evolution, Fixed, Nsga2Selection, State, UniformSelection
from jcw_search import search as search_by
from jcw_search.pareto import non_dominated
from jcw_search.phases import Variant

VARIANTS: list[Variant] = ["joint", "channels", "weights", "sequential"]

search = partial(search_by, algorithm="plain")


class Counting:
    """An evaluator that remembers what it was asked."""

    def __init__(self, function: Any, stale: bool = False) -> None:
        self.function, self.stale = function, stale
        self.seen: list[bytes] = []
        self.generations: list[int] = []
        self.announced: list[set[bytes]] = []

    def begin_generation(self, population: np.ndarray, generation: int) -> bool:
        self.generations.append(generation)
        self.announced.append({row.tobytes() for row in population})
        return self.stale and generation > 0

    def evaluate(self, space: SearchSpace, population: np.ndarray) -> np.ndarray:
        self.seen.extend(row.tobytes() for row in population)
        return self.function(space, population)


# Bounds that are multiples of the steps of 4 channels and 0.01, and bounds that are not.
@pytest.mark.parametrize(
    ("channels", "width", "density"), [(8, 0.5, 0.98), (9, 0.45, 0.98), (10, 0.4, 0.98), (10, 0.4, 0.978)]
)
@pytest.mark.parametrize("selection", [UniformSelection(), UniformSelection(16), Nsga2Selection()])
def test_a_tiny_space_is_searched_to_the_last_architecture(
    selection: Selection, channels: int, width: float, density: float
) -> None:
    space = toy.tiny(channels, width, density)
    whole = toy.everything(space)
    assert 50 < len(whole) < 400
    evaluators = {"latency": Counting(toy.latency), "error": Counting(toy.error)}
    result = search(space, evaluators, selection=selection, population=8, generations=500)

    assert {row.tobytes() for row in result.values} == {row.tobytes() for row in whole}
    assert len(evaluators["error"].seen) == len(set(evaluators["error"].seen)) == len(whole)
    assert len(result.hypervolume) < 200, "it must end when there is nothing left to try"
    truth = np.stack([toy.latency(space, whole), toy.error(space, whole)], axis=1)
    np.testing.assert_array_equal(result.objectives[result.front], truth[non_dominated(truth)])


@pytest.mark.parametrize("variant", VARIANTS)
def test_invariants_of_a_search(space: SearchSpace, evaluators: dict[str, Fixed], variant: Variant) -> None:
    states: list[State] = []
    result = search(
        space, evaluators, population=12, generations=20, variant=variant, seed=3, callback=states.append
    )
    low, high = space.low, space.high
    assert ((result.values >= low) & (result.values <= high)).all()
    np.testing.assert_array_equal(space.decode(space.encode(result.values)), result.values)
    assert len(np.unique(result.values, axis=0)) == len(result.values)
    np.testing.assert_array_equal(result.objectives[:, 0], toy.latency(space, result.values))
    np.testing.assert_array_equal(result.objectives[:, 1], toy.error(space, result.values))
    np.testing.assert_array_equal(result.front, non_dominated(result.objectives))
    assert (np.diff(result.hypervolume) >= -1e-12).all()
    assert result.hypervolume[-1] > result.hypervolume[0]
    assert [s.generation for s in states] == list(range(21))
    for state in states:
        assert len(set(state.population.tolist())) == 12
    assert len(result.architectures) == len(result.front)
    assert space.row(result.architectures[0]).tolist() == result.values[result.front[0]].tolist()


def test_the_same_seed_gives_the_same_result_and_another_seed_another(
    space: SearchSpace, evaluators: dict[str, Fixed]
) -> None:
    one, same, other = (
        search(space, evaluators, population=8, generations=6, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.values, same.values)
    np.testing.assert_array_equal(one.front, same.front)
    assert {r.tobytes() for r in one.values} != {r.tobytes() for r in other.values}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("tiny", [True, False])
def test_nothing_is_evaluated_twice_or_lost(space: SearchSpace, variant: Variant, tiny: bool) -> None:
    """In a tiny space the corners, which are evaluated for the limits, would be bred too."""
    space = toy.tiny(8) if tiny else space
    evaluators = {"latency": Counting(toy.latency), "error": Counting(toy.error)}
    result = search(space, evaluators, population=6 if tiny else 12, generations=15, variant=variant)
    for evaluator in evaluators.values():
        assert len(evaluator.seen) == len(set(evaluator.seen))
        assert tiny or evaluator.generations == list(range(16))
        lost = set(evaluator.seen) - {row.tobytes() for row in result.values}
        # Only the scale of the hypervolume reaches further than a variant of one kind.
        assert lost == ({space.low.tobytes()} if variant in ("channels", "weights") else set())


class Drifting(Counting):
    """A supernet that is trained on: every generation its errors fall."""

    def evaluate(self, space: SearchSpace, population: np.ndarray) -> np.ndarray:
        super().evaluate(space, population)
        return self.function(space, population) / (1 + len(self.generations))


def test_stale_values_are_renewed_for_the_parents_and_never_mixed_with_new_ones(space: SearchSpace) -> None:
    latency, error = Counting(toy.latency), Drifting(toy.error, stale=True)
    states: list[State] = []
    result = search(
        space, {"latency": latency, "error": error}, population=8, generations=5, callback=states.append
    )
    assert len(latency.seen) == len(set(latency.seen)), "latency never grew stale"
    for before, after in pairwise(states):
        scale = 1 + after.generation + 1
        fresh = np.flatnonzero(after.current)
        expected = toy.error(space, after.values[fresh]) / scale
        np.testing.assert_allclose(after.objectives[fresh, 1], expected)
        assert set(before.population) <= set(fresh)
        assert set(after.population) <= set(fresh)
        assert set(after.front) <= set(fresh)
    assert len(error.seen) > len(latency.seen)
    assert len(np.unique(result.values, axis=0)) == len(result.values)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_generation_is_announced_with_all_that_it_evaluates(space: SearchSpace, variant: Variant) -> None:
    """Parents and children alike: where they share a supernet, all of them have a part in its training."""
    error = Counting(toy.error, stale=True)
    search(
        space, {"latency": Fixed(toy.latency), "error": error}, population=8, generations=6, variant=variant
    )
    evaluated = iter(error.seen)
    for announced in error.announced:
        assert {next(evaluated) for _ in announced} == announced
    assert next(evaluated, None) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"population": 3}, "population: 3 is too small; give at least 4"),
        ({"variant": "depth"}, "variant: 'depth' is unknown; there is: joint, channels"),
        ({"variant": "sequential", "generations": 1}, "at least 2"),
    ],
)
def test_impossible_arguments_are_refused(
    space: SearchSpace, evaluators: dict[str, Fixed], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(JcwError, match=message):
        search(space, evaluators, **{"generations": 3, **change})


def test_one_objective_is_refused(space: SearchSpace) -> None:
    with pytest.raises(JcwError, match=r"objectives: .*give latency and at least one more"):
        search(space, {"latency": Fixed(toy.latency)})


def test_a_variant_without_anything_to_vary_is_refused(evaluators: dict[str, Fixed]) -> None:
    space = SearchSpace.of(toy.network(), [Bound("*", width=1, density=0.5)])
    with pytest.raises(
        JcwError, match=r"variant: 'channels' finds nothing to choose.*take 'joint' or 'weights'"
    ):
        search(space, evaluators, variant="channels")


def test_an_objective_that_breaks_its_protocol_is_named(space: SearchSpace) -> None:
    with pytest.raises(PluginError, match="objective 'error' gave"):
        search(space, {"latency": Fixed(toy.latency), "error": Fixed(lambda s, p: np.zeros(3))}, population=8)


class Broken:
    name = "broken"

    def __init__(self, chosen: Any) -> None:
        self.chosen = chosen

    def select(
        self, objectives: np.ndarray, size: int, rng: np.random.Generator, *, limits: np.ndarray
    ) -> np.ndarray:
        return self.chosen(len(objectives), size)


@pytest.mark.parametrize(
    "chosen",
    [
        lambda n, size: np.zeros(size, dtype=int),
        lambda n, size: np.arange(size) + n,
        lambda n, size: np.arange(size - 1),
        lambda n, size: np.arange(size) / 2,
        lambda n, size: np.arange(size) - 1,
    ],
)
def test_a_strategy_that_breaks_its_protocol_is_named(
    space: SearchSpace, evaluators: dict[str, Fixed], chosen: Any
) -> None:
    evolution = Evolution(
        space=space, evaluators=evaluators, selection=Broken(chosen), population=8, generations=2
    )
    state = evolution.start(np.random.default_rng(0))
    with pytest.raises(PluginError, match="selection strategy 'broken' gave"):
        evolution.step(state, np.random.default_rng(1))


def test_a_third_objective_is_searched_too(space: SearchSpace, evaluators: dict[str, Fixed]) -> None:
    weights = Fixed(lambda s, p: (p * (s.maximum > 1)).sum(axis=1))
    result = search(space, {**evaluators, "size": weights}, population=12, generations=8)
    assert result.objectives.shape[1] == 3
    assert 0 < result.hypervolume[-1] <= 1
