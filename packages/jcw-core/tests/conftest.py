from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jcw_core.network.graph import Network


@pytest.fixture
def read_model(tmp_path: Path) -> Callable[..., Network]:
    """Reads the ONNX model that ``onnx_models.model`` makes of the same arguments."""
    from onnx_models import model

    from jcw_core.formats.onnx_reader import read_onnx

    def write_and_read(*arguments: Any, **options: Any) -> Network:
        (tmp_path / "net.onnx").write_bytes(model(*arguments, **options).SerializeToString())
        return read_onnx(tmp_path / "net.onnx")

    return write_and_read
