from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from core_networks import small_resnet
from latency_samples import SyntheticDevice, TextExporter, quick_options

from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
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
    table.save(path)
    return path


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[Architecture]:
    """Every architecture that is exported to run end to end."""
    found: list[Architecture] = []
    export = TextExporter.export

    def noted(self: TextExporter, model: Model, path: Path) -> None:
        found.append(model.architecture)
        export(self, model, path)

    monkeypatch.setattr(TextExporter, "export", noted)
    return found
