from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    table.write(path)
    return path


@pytest.fixture
def read_model(tmp_path: Path) -> Callable[..., Network]:
    """Reads the ONNX model that ``onnx_models.model`` makes of the same arguments."""
    from onnx_models import model

    from jcw_core.formats.onnx_reader import read_onnx

    def write_and_read(*arguments: Any, **options: Any) -> Network:
        (tmp_path / "net.onnx").write_bytes(model(*arguments, **options).SerializeToString())
        return read_onnx(tmp_path / "net.onnx")

    return write_and_read


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[Architecture]:
    """Every architecture that is exported to run end to end."""
    found: list[Architecture] = []
    export: Callable[..., None] = TextExporter.export

    def noted(self: TextExporter, model: Model, path: Path) -> None:
        found.append(model.architecture)
        export(self, model, path)

    monkeypatch.setattr(TextExporter, "export", noted)
    return found
