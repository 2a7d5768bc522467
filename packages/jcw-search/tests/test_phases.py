"""What a variant varies, in which phase, and how far that reaches."""

from __future__ import annotations

import numpy as np
import pytest
import search_toys as toy

from jcw_core.space.space import SearchSpace
from jcw_search import Fixed, State, search
from jcw_search.phases import Variant

VARIANTS: list[Variant] = ["joint", "channels", "weights", "sequential"]


def test_variants_vary_what_they_say(space: SearchSpace, evaluators: dict[str, Fixed]) -> None:
    widths = np.array([v.kind == "width" for v in space.variables])
    found = {
        variant: search(
            space, evaluators, algorithm="plain", population=12, generations=10, variant=variant
        ).values
        for variant in VARIANTS
    }
    assert (found["channels"][:, ~widths] == 1).all()
    assert (found["weights"][:, widths] == space.high[widths]).all()
    for variant in ("channels", "sequential", "joint"):
        assert len(np.unique(found[variant][:, widths], axis=0)) > 5
    for variant in ("weights", "sequential", "joint"):
        assert len(np.unique(found[variant][:, ~widths], axis=0)) > 5


def test_the_second_phase_inherits_the_widths_that_survived_the_first(
    space: SearchSpace, evaluators: dict[str, Fixed]
) -> None:
    states: dict[int, State] = {}
    search(
        space,
        evaluators,
        algorithm="plain",
        population=12,
        generations=10,
        variant="sequential",
        callback=lambda s: states.update({s.generation: s}),
    )
    widths = np.array([v.kind == "width" for v in space.variables])
    first, last = states[5], states[10]
    # The smallest of the space was evaluated for the limits of the second phase.
    bred = first.values[(first.values != space.low).any(axis=1)]
    assert (bred[:, ~widths] == 1).all()
    survived = {row.tobytes() for row in first.values[first.population][:, widths]}
    later = last.values[len(first.values) :]
    assert {row.tobytes() for row in later[:, widths]} <= survived
    assert (later[:, ~widths] < 1).any()


def test_an_exhausted_first_phase_ends_nothing_but_itself() -> None:
    space = toy.tiny(8)
    evaluators = {"latency": Fixed(toy.latency), "error": Fixed(toy.error)}
    result = search(space, evaluators, algorithm="plain", population=6, generations=60, variant="sequential")
    widths = np.array([v.kind == "width" for v in space.variables])
    whole, found = toy.everything(space), {row.tobytes() for row in result.values}
    assert {row.tobytes() for row in whole if (row[~widths] == 1).all()} <= found

    survived = {row.tobytes() for row in result.values[result.population][:, widths]}
    reached = {row.tobytes() for row in whole if row[widths].tobytes() in survived}
    assert len(reached) > 8
    assert reached <= found


class Spy:
    """The first candidates survive, and the limits are kept."""

    name = "spy"

    def __init__(self) -> None:
        self.limits: list[np.ndarray] = []

    def select(
        self, objectives: np.ndarray, size: int, rng: np.random.Generator, *, limits: np.ndarray
    ) -> np.ndarray:
        self.limits.append(limits)
        return np.arange(size)


@pytest.mark.parametrize("variant", VARIANTS)
def test_selection_is_told_how_far_its_phase_reaches(
    space: SearchSpace, evaluators: dict[str, Fixed], variant: Variant
) -> None:
    spy = Spy()
    search(space, evaluators, algorithm="plain", selection=spy, population=8, generations=4, variant=variant)
    widths = np.array([v.kind == "width" for v in space.variables])
    smallest = {
        "joint": [space.low] * 4,
        "channels": [np.where(widths, space.low, space.high)] * 4,
        "weights": [np.where(widths, space.high, space.low)] * 4,
        "sequential": [np.where(widths, space.low, space.high)] * 2 + [space.low] * 2,
    }
    corners = [np.stack([corner, space.high]) for corner in smallest[variant]]
    expected = [np.stack([toy.latency(space, pair), toy.error(space, pair)], axis=1) for pair in corners]
    np.testing.assert_allclose(spy.limits, expected)
