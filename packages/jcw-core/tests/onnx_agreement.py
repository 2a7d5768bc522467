"""Models of ONNX files, and whether they compute what onnxruntime makes of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core_networks import run
from onnx_models import onnx

from jcw_core.formats.onnx_reader import read_onnx_model
from jcw_core.network.model import Model


def read(folder: Path, content: bytes, shape: Any = None) -> Model:
    (folder / "net.onnx").write_bytes(content)
    return read_onnx_model(folder / "net.onnx", shape)


def outputs(model: Model, images: np.ndarray) -> np.ndarray:
    name = model.network.output.name
    return np.array([run(model.network, model.weights, image)[name].reshape(-1) for image in images])


def random(name: str, *shape: int, rng: np.random.Generator) -> Any:
    values = rng.uniform(0.5, 2, shape) if name.startswith("var") else rng.normal(0, 0.5, shape)
    return onnx.numpy_helper.from_array(values.astype(np.float32), name)


def agrees(folder: Path, content: bytes, shape: tuple[int, ...] = (1, 4, 6, 6)) -> Model:
    """The model of a file, which computes what onnxruntime does."""
    runtime = pytest.importorskip("onnxruntime")
    found = read(folder, content, shape)
    images = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    want = session.run(None, {session.get_inputs()[0].name: images})[0].reshape(1, -1)
    np.testing.assert_allclose(outputs(found, images), want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    return found
