"""Asking and telling: the same search as ``search``, in other hands."""

from __future__ import annotations

import numpy as np
import pytest
import search_toys as toy

from jcw_core.errors import JcwError
from jcw_core.space.space import SearchSpace
from jcw_search import AskTell, Fixed, search
from jcw_search.algorithms import Algorithm
from jcw_search.phases import Variant


@pytest.mark.parametrize("algorithm", ["assisted", "plain"])
@pytest.mark.parametrize("variant", ["joint", "sequential"])
def test_it_is_the_search(
    space: SearchSpace, evaluators: dict[str, Fixed], algorithm: Algorithm, variant: Variant
) -> None:
    pipeline = AskTell(
        space, {"latency": toy.latency, "error": None},
        algorithm=algorithm, seed=5, population=8, generations=6, variant=variant,
    )  # fmt: skip
    while len(rows := pipeline.ask()):
        np.testing.assert_array_equal(pipeline.ask(), rows)
        pipeline.tell(toy.error(space, rows))
    assert pipeline.is_done
    expected = search(
        space, evaluators, algorithm=algorithm, seed=5, population=8, generations=6, variant=variant
    )
    found = pipeline.result()
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.reported, expected.reported)


def test_several_objectives_may_be_told_and_fail(space: SearchSpace) -> None:
    pipeline = AskTell(space, {"latency": None, "error": None}, population=8, generations=3)
    while len(rows := pipeline.ask()):
        told = np.stack([toy.latency(space, rows), toy.error(space, rows)], axis=1)
        told[2] = [np.inf, 0.5]
        pipeline.tell(told)
    result = pipeline.result()
    assert len(result.failed) == 4
    assert np.isfinite(result.objectives).all()


def test_an_exhausted_space_is_done(evaluators: dict[str, Fixed]) -> None:
    space = toy.tiny(8)
    pipeline = AskTell(space, {"latency": toy.latency, "error": None}, population=8, generations=500)
    while len(rows := pipeline.ask()):
        pipeline.tell(toy.error(space, rows))
    assert len(pipeline.result().values) == len(toy.everything(space))
    assert pipeline.is_done


def test_misuse_is_named(space: SearchSpace) -> None:
    with pytest.raises(JcwError, match="none is told; call search instead"):
        AskTell(space, {"latency": toy.latency, "error": toy.error})
    pipeline = AskTell(space, {"latency": toy.latency, "error": None}, population=8)
    with pytest.raises(JcwError, match="call ask first"):
        pipeline.tell([1.0])
    with pytest.raises(JcwError, match="nothing was told yet"):
        pipeline.result()
    count = len(pipeline.ask())
    with pytest.raises(JcwError, match=rf"shape \(3, 1\), expected \({count}, 1\) for \['error'\]"):
        pipeline.tell([1.0, 2.0, 3.0])
