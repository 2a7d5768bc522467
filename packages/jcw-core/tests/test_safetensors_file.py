"""Models in safetensors files: read as they were written, and damaged files are one error."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from core_networks import small_resnet
from hypothesis import given
from hypothesis import strategies as st

from jcw_core.errors import FormatError, JcwError
from jcw_core.formats.safetensors_file import SafetensorsExporter, load_model
from jcw_core.network.architecture import Architecture
from jcw_core.network.model import Model

pytest.importorskip("safetensors", reason="pip install 'jcw-core[safetensors]'")


def some_model(architecture: Architecture | None = None) -> Model:
    network, rng = small_resnet(width=8), np.random.default_rng(0)
    shapes = {**network.parameter_shapes, **network.buffer_shapes}
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return Model(network, arrays, architecture)


@pytest.mark.parametrize("architecture", [None, Architecture({"stem": 8}, {"fc": 0.5})])
def test_a_model_is_read_as_it_was_written(tmp_path: Path, architecture: Architecture | None) -> None:
    model, path = some_model(architecture), tmp_path / "model.safetensors"
    SafetensorsExporter().export(model, path)
    found = load_model(path)
    assert (found.network, found.architecture) == (model.network, architecture)
    assert found.weights.keys() == model.weights.keys()
    for name, array in model.weights.items():
        np.testing.assert_array_equal(found.weights[name], array)


@given(data=st.data())
def test_a_file_that_is_cut_or_changed_anywhere_is_one_error_or_a_model(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "model.safetensors"
    SafetensorsExporter().export(some_model(), path)
    content = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    place = data.draw(st.integers(0, header - 1))
    if data.draw(st.booleans()):
        del content[place + data.draw(st.integers(0, len(content) - header)) :]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        load_model(path)
    except FormatError as error:
        assert str(path) in str(error)  # noqa: PT017


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.safetensors: no such file"):
        load_model(tmp_path / "none.safetensors")


def test_a_missing_library_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(JcwError, match=r"pip install 'jcw-core\[safetensors\]'"):
        SafetensorsExporter().export(some_model(), tmp_path / "model.safetensors")
    with pytest.raises(JcwError, match=r"pip install 'jcw-core\[safetensors\]'"):
        load_model(tmp_path / "model.safetensors")
