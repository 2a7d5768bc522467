"""Weights that a ``model.jcw`` stores as float16: what the engine computes with, and what they cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_samples import weights_for
from numpy.typing import NDArray
from safetensors.numpy import load as load_tensors

from jcw_core.backbones.mobilenet_v2 import MOBILENET_V2
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.protocols import Precision
from jcw_kernels import compile_model, load
from jcw_kernels.exporter import JcwExporter
from jcw_kernels.model_file import serialize
from jcw_kernels.weight_packing import as_stored

F32 = NDArray[np.float32]


def plain_network() -> Network:
    """Every kind of layer with weights, none of which batch norm changes."""
    b = NetworkBuilder("plain", (3, 12, 12))
    b.conv("conv", 16, 3)
    b.depthwise("depthwise", 3)
    b.conv("grouped", 16, 3, groups=4)
    b.conv("point", 24, 1)
    b.add("mean", "global_avg_pool")
    b.add("flat", "flatten")
    b.linear("fc", 7)
    return b.build()


def linear(weight: F32) -> Model:
    b = NetworkBuilder("linear", (1,))
    b.linear("fc", len(weight), bias=False)
    return Model(b.build(), {"fc.weight": weight[:, None]})


def test_every_number_of_half_precision_is_read_as_it_is(isa: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    values = every[np.isfinite(every)].astype(np.float32)
    program = compile_model(linear(values), isa=isa, weights="float16")
    np.testing.assert_array_equal(program.run(np.ones((1, 1), np.float32))[0], values)


@pytest.mark.parametrize("density", [1.0, 0.3])
def test_the_engine_computes_with_what_is_stored(density: float, isa: str, rng: np.random.Generator) -> None:
    network = plain_network()
    weights = weights_for(network, rng, density)
    rounded = {
        name: array.astype(np.float16).astype(np.float32) if name.endswith("weight") else array
        for name, array in weights.items()
    }
    image = rng.standard_normal((2, *network.input_shape), dtype=np.float32)
    found = compile_model(Model(network, weights), isa=isa, weights="float16").run(image)
    assert found.tobytes() == compile_model(Model(network, rounded), isa=isa).run(image).tobytes()


def test_files_are_half_as_large(tmp_path: Path, rng: np.random.Generator) -> None:
    network = MOBILENET_V2.build(num_classes=100, input_size=32)
    model = Model(network, weights_for(network, rng, 0.5))
    sizes = []
    for exporter in (JcwExporter(), JcwExporter().storing("float16")):
        path = tmp_path / "model.jcw"
        exporter.export(model, path)
        sizes.append(path.stat().st_size)
        load(path)
    assert sizes[1] < 0.57 * sizes[0]


@pytest.mark.parametrize(("precision", "stored"), [("float32", np.float32), ("float16", np.float16)])
def test_weights_are_stored_in_what_they_are_computed_in_unless_one_says(
    precision: Precision, stored: type, rng: np.random.Generator
) -> None:
    network = plain_network()
    model = Model(network, weights_for(network, rng, 0.5))
    for asked, kept in ((None, stored), ("float32", np.float32), ("float16", np.float16)):
        arrays = load_tensors(serialize(model, asked, precision=precision))
        assert {array.dtype for name, array in arrays.items() if name.endswith((".values", ".weight"))} == {
            np.dtype(kept)
        }


def test_biases_stay_as_they_are(rng: np.random.Generator) -> None:
    network = plain_network()
    arrays = load_tensors(serialize(Model(network, weights_for(network, rng, 0.5)), "float16"))
    kinds = {name: array.dtype for name, array in arrays.items() if not name.endswith(".mask")}
    assert {dtype for name, dtype in kinds.items() if name.endswith("bias")} == {np.dtype(np.float32)}
    assert {dtype for name, dtype in kinds.items() if not name.endswith("bias")} == {np.dtype(np.float16)}


@pytest.mark.parametrize(
    ("largest", "stored"),
    [
        (65504.0, np.float16),
        (65505.0, np.float32),
        (1e30, np.float32),
        (2.0**-14, np.float16),
        (2.0**-15, np.float32),
        (0.0, np.float32),
        (np.nan, np.float32),
    ],
)
def test_layers_that_would_lose_more_than_rounding_stay_float32(largest: float, stored: type) -> None:
    weight = np.full((8, 3), 0.5 * largest, np.float32)
    weight[5, 1] = -largest
    found = as_stored(weight, "float16")
    assert found.dtype == stored
    if np.isfinite(largest):
        np.testing.assert_allclose(found.astype(np.float32), weight, rtol=2.0**-11)


def test_weights_too_small_for_half_precision_are_left_out() -> None:
    values = np.array([1.0, 0.5, -1.0, 2.0, 1e-9, -1e-9, 1e-9, 1e-9], np.float32)
    program = compile_model(linear(values), weights="float16")
    np.testing.assert_array_equal(program.run(np.ones((1, 1), np.float32))[0], [*values[:4], 0, 0, 0, 0])
    assert load_tensors(serialize(linear(values), "float16"))["fc.values"].shape == (1, 4)
