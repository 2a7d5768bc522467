"""Copies and pickles of tables and predictors, as process pools make them: they predict the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest

from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable


def sent(value: Any) -> Any:
    """As it arrives in another process."""
    return ForkingPickler.loads(ForkingPickler.dumps(value))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, sent])
@pytest.mark.parametrize("used", [False, True])
def test_copies_predict_the_same(
    table: LatencyTable, space: SearchSpace, copied: Callable[[Any], Any], used: bool
) -> None:
    population = space.sample(600, np.random.default_rng(0))
    predictor = LatencyPredictor(table, space)
    if used:
        predictor.predict(population)
    twin, other = copied(predictor), copied(table)
    for size in (10, 600):
        expected = predictor.predict(population[:size])
        np.testing.assert_array_equal(twin.predict(population[:size]), expected)
        np.testing.assert_array_equal(LatencyPredictor(other, space).predict(population[:size]), expected)
    assert other.device == table.device
    assert other.settings == table.settings
