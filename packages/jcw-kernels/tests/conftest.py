"""Fixtures of the kernel tests: instruction sets, random generators, ``jcw-device``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jcw_kernels import available_isas, chosen_isa

# Modules that several tests share stand beside them.
sys.path.insert(0, str(Path(__file__).parent))

ISAS = [chosen_isa(name) for name in os.environ.get("JCW_TESTED_ISAS", "").split()] or available_isas()
"""Those whose every tile edge is tested: all of this machine, or what JCW_TESTED_ISAS names, with spaces between."""


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest) -> str:
    return str(request.param)


COMPUTED = [*((isa, "float32") for isa in ISAS), (ISAS[-1], "float16")]
"""Instruction sets and what they compute in: half precision has kernels of its own beside NEON's, and portable ones."""


@pytest.fixture(params=COMPUTED, ids="-".join)
def computed(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What ``compile_model`` is asked for: an instruction set and a precision."""
    return dict(zip(("isa", "precision"), request.param, strict=True))


@pytest.fixture(params=["always", "never"])
def dot(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the processor's dot products of bytes, where it has them, and without."""
    monkeypatch.setenv("JCW_DOT", request.param)
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
