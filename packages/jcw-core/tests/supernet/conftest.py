"""Without torch, only what holds without torch is tested here."""

from __future__ import annotations

import importlib.util

import pytest
from supernet_samples import BUILDERS, Blobs

from jcw_core.network.graph import Network
from jcw_core.space.space import SearchSpace

if importlib.util.find_spec("torch") is None:
    collect_ignore = [
        "test_accelerator.py",
        "test_batches.py",
        "test_convolutions.py",
        "test_distance.py",
        "test_joined.py",
        "test_memory.py",
        "test_ranks.py",
        "test_supernet_copies.py",
        "test_supernet_execution.py",
        "test_supernet_module.py",
        "test_supernet_stage.py",
        "test_supernet_training.py",
        "test_own_networks.py",
        "test_torch_import.py",
    ]
else:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(params=BUILDERS)
def network(request: pytest.FixtureRequest) -> Network:
    return BUILDERS[request.param]()


@pytest.fixture
def space(network: Network) -> SearchSpace:
    return SearchSpace.of(network)


@pytest.fixture
def dataset() -> Blobs:
    return Blobs(200)
