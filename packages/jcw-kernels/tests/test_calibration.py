"""Numbers that stand for activations: found from images, near to what floats make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from kernel_samples import conv_network, weights_for

from jcw_core.errors import JcwError
from jcw_core.files import safetensors_metadata
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.model import Model
from jcw_core.protocols import Calibration, CalibrationMethod
from jcw_kernels import Program, calibrate, compile_model
from jcw_kernels.exporter import JcwExporter
from jcw_kernels.layer_program import layer_file
from jcw_kernels.quantization import Numbers


def small() -> Network:
    b = NetworkBuilder("small", (3, 16, 16))
    b.conv("one", 8, 3, 2)
    b.batch_norm("norm")
    b.add("relu", "relu")
    b.depthwise("deep", 3)
    b.conv("two", 12, 3)
    b.add("clip", "relu6")
    b.conv("wide", 16, 1)
    b.add("mean", "global_avg_pool")
    return b.build()


def test_a_calibrated_network_computes_nearly_the_same(isa: str, rng: np.random.Generator) -> None:
    model = Model(small(), weights_for(small(), rng))
    images = rng.standard_normal((24, 3, 16, 16), dtype=np.float32)
    exact = compile_model(model, isa=isa).run(images[16:])
    for method in ("mse", "percentile", "minmax"):
        numbers = calibrate(model, images[:16], method=method)  # type: ignore[arg-type]
        assert set(numbers) == {"one", "deep", "two", "wide"}
        found = compile_model(model, isa=isa, quantization=numbers).run(images[16:])
        assert 0 < np.linalg.norm(found - exact) < 0.03 * np.linalg.norm(exact), method


def test_pointwise_layers_are_taken_where_they_keep_many_inputs(rng: np.random.Generator) -> None:
    network = conv_network((64, 6, 6), 8, (1, 1))
    images = rng.standard_normal((2, 64, 6, 6), dtype=np.float32)
    for density, taken in ((1.0, {"conv"}), (0.125, {"conv"}), (0.1, set())):
        assert set(calibrate(Model(network, weights_for(network, rng, density)), images)) == taken


@pytest.mark.parametrize(
    ("inputs", "outputs", "density", "taken"),
    [
        (64, 32, 1.0, True),
        (64, 31, 1.0, False),
        (512, 100, 0.2, True),
        (512, 100, 0.15, False),
        (33_156, 4, 1.0, False),
    ],
)
@pytest.mark.parametrize("op", ["linear", "conv2d"])
def test_linear_layers_are_taken_where_they_keep_much(
    op: str, inputs: int, outputs: int, density: float, taken: bool, rng: np.random.Generator
) -> None:
    b = NetworkBuilder("net", (inputs, 1, 1))
    b.add("flat", "flatten") if op == "linear" else None
    b.linear("layer", outputs) if op == "linear" else b.conv("layer", outputs, 1, bias=True)
    network = b.build()
    images = rng.standard_normal((2, inputs, 1, 1), dtype=np.float32)
    model = Model(network, weights_for(network, rng, density))
    numbers = calibrate(model, images)
    assert set(numbers) == ({"layer"} if taken else set())
    kernels = {step.kernel for step in compile_model(model, quantization=numbers).profile(rounds=1)}
    assert ("int8 linear" in kernels) == taken


def test_layers_may_be_named(rng: np.random.Generator) -> None:
    model = Model(small(), weights_for(small(), rng))
    images = rng.standard_normal((2, 3, 16, 16), dtype=np.float32)
    assert set(calibrate(model, images, layers=["wide"])) == {"wide"}
    with pytest.raises(JcwError, match="'mean' cannot compute with int8"):
        calibrate(model, images, layers=["mean"])
    grouped = conv_network((3, 16, 16), 6, (3, 3), groups=3)
    with pytest.raises(JcwError, match="'conv' cannot compute with int8"):
        calibrate(Model(grouped, weights_for(grouped, rng)), images, layers=["conv"])


@pytest.mark.parametrize(
    ("kernel", "stride", "width", "activation", "taken"),
    [
        (3, 1, 9, "", True), (5, 1, 9, "relu6", True), (3, 1, 9, "silu", False), (1, 1, 9, "", False),
        (3, 2, 34, "relu", True), (5, 2, 33, "", True), (3, 2, 32, "relu", False), (7, 2, 34, "", False), (3, 3, 60, "", False),
    ],
)  # fmt: skip
def test_depthwise_layers_are_taken_where_they_gain(
    kernel: int, stride: int, width: int, activation: str, taken: bool, rng: np.random.Generator
) -> None:
    network = conv_network(
        (8, 9, width), 8, (kernel,) * 2, (stride,) * 2, (kernel // 2,) * 2, groups=8, activation=activation
    )
    images = rng.standard_normal((2, 8, 9, width), dtype=np.float32)
    assert set(calibrate(Model(network, weights_for(network, rng)), images)) == ({"conv"} if taken else set())
    problem = problem_of(network, fuse(network)[0])
    for precision in ("int8", "float32"):
        file, _ = layer_file(problem, rng, precision)
        kernels = {step.kernel for step in Program(file).profile(rounds=1)}
        assert bool(kernels & {"int8 depthwise", "int8 in floats"}) == (taken and precision == "int8")


def test_layers_that_run_together_are_seen_one_by_one(rng: np.random.Generator) -> None:
    """What lies between them is never in memory where they do, and the second had no numbers then."""
    b = NetworkBuilder("pair", (16, 48, 48))
    b.conv("one", 24, 1)
    b.add("clip", "relu6")
    b.depthwise("two", 3, 2)
    model = Model(b.build(), weights_for(b.build(), rng))
    kernels = [step.kernel for step in compile_model(model).profile(rounds=1)]
    assert any("+depthwise" in kernel for kernel in kernels)
    assert set(calibrate(model, rng.standard_normal((2, 16, 48, 48), dtype=np.float32))) == {"one", "two"}


@pytest.mark.parametrize("size", [12, 3])
def test_means_of_outputs_stay(size: int, rng: np.random.Generator) -> None:
    """Rounded weights shift them; biases make up for it. One that makes a pixel of 3 x 3 is a linear layer."""
    network = conv_network((16, size, size), 8, (3, 3))
    arrays = weights_for(network, rng)
    arrays["conv.weight"][:, :, 1, 1] += 200 * np.sign(rng.standard_normal((8, 16))).astype(np.float32)
    images = np.abs(rng.standard_normal((32, 16, size, size), dtype=np.float32)) + 1
    model = Model(network, arrays)
    numbers = calibrate(model, images, layers=["conv"])
    plain = {"conv": Numbers(numbers["conv"].scale, numbers["conv"].zero, np.zeros(16))}
    exact = compile_model(model).run(images).reshape(32, 8, -1).mean(axis=(0, 2))

    def off(quantization: Any) -> float:
        found = compile_model(model, quantization=quantization).run(images).reshape(32, 8, -1)
        return float(np.abs(found.mean(axis=(0, 2)) - exact).max())

    assert off(numbers) < 0.2 * off(plain)


def test_what_cannot_be_calibrated_is_said(rng: np.random.Generator) -> None:
    model = Model(small(), weights_for(small(), rng))
    images = rng.standard_normal((2, 3, 16, 16), dtype=np.float32)
    with pytest.raises(JcwError, match="no image"):
        calibrate(model, images[:0])
    with pytest.raises(JcwError, match="expected one of mse, percentile, minmax"):
        calibrate(model, images, method="best")  # type: ignore[arg-type]
    with pytest.raises(JcwError, match="NaN or infinite"):
        calibrate(model, np.full_like(images, np.nan))


def test_methods_differ_where_there_are_outliers(tmp_path: Path, rng: np.random.Generator) -> None:
    """One value in 262,144 is a hundred times the others: cut off, weighed against the rest, or kept."""
    network = conv_network((1, 64, 64), 4, (3, 3))
    model = Model(network, weights_for(network, rng))
    images = rng.random((64, 1, 64, 64), dtype=np.float32)
    images[7, 0, 5, 5] = 100
    path = tmp_path / "model.jcw"
    scales = {}
    for method in get_args(CalibrationMethod):
        JcwExporter().calibrated(images, Calibration(method)).export(model, path)
        (unit,) = json.loads(safetensors_metadata(path.read_bytes())["program"])["units"]
        scales[method] = 255 * unit["input_scale"]
    assert scales["minmax"] == pytest.approx(100, rel=1e-5)
    assert 60 < scales["mse"] < 90
    assert 0.9 < scales["percentile"] < 1
