from __future__ import annotations

import numpy as np
import pytest
from jcw_kernels import available_isas


@pytest.fixture(params=available_isas())
def isa(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Seeded by the test's name; a failure repeats."""
    return np.random.default_rng(list(request.node.nodeid.encode()))
