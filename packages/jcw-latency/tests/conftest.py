from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from core_networks import small_resnet
from latency_samples import SyntheticDevice, quick_options

from jcw_core.network.graph import Network
from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyTable, profile


@pytest.fixture(scope="session")
def network() -> Network:
    return small_resnet(width=16)


@pytest.fixture(scope="session")
def space(network: Network) -> SearchSpace:
    return SearchSpace.of(network)


@pytest.fixture(scope="session")
def table(network: Network) -> LatencyTable:
    return profile(network, SyntheticDevice(), quick_options(), rng=np.random.default_rng(0))


@pytest.fixture
def table_file(table: LatencyTable, tmp_path: Path) -> Path:
    path = tmp_path / "table.npz"
    table.write(path)
    return path
