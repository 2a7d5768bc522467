"""A small space, its objectives, and random numbers."""

from __future__ import annotations

import numpy as np
import pytest
import search_toys as toy

from jcw_core.space.space import SearchSpace
from jcw_search import Fixed


@pytest.fixture
def space() -> SearchSpace:
    return SearchSpace.of(toy.network())


@pytest.fixture
def evaluators() -> dict[str, Fixed]:
    return {"latency": Fixed(toy.latency, exact=True), "error": Fixed(toy.error)}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
