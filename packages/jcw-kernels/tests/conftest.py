"""Fixtures of the kernel tests: instruction sets, random generators, ``jcw-device``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from jcw_kernels import available_isas

# Modules that several tests share stand beside them.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=available_isas())
def isa(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Seeded by the test's name; a failure repeats."""
    return np.random.default_rng(list(request.node.nodeid.encode()))


@pytest.fixture(scope="session")
def program() -> str:
    """``jcw-device``: the one named by JCW_DEVICE_PROGRAM, or else built here."""
    from device_program import built

    return os.environ.get("JCW_DEVICE_PROGRAM") or built()
