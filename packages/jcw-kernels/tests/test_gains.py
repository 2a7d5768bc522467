"""Layers that compute with int8, by what the processor sums up at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_samples import weights_for

from jcw_core.backbones.mobilenet_v2 import MOBILENET_V2
from jcw_core.files import safetensors_metadata
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.model import Model
from jcw_core.network.problem import LayerProblem
from jcw_core.protocols import Calibration, Products
from jcw_kernels import Program, calibrate
from jcw_kernels.exporter import JcwExporter
from jcw_kernels.gains import gains_from_int8, products_here
from jcw_kernels.host import HostDevice, HostOptions, HostPlugin

THREE = {"kernel_size": (3, 3), "padding": (1, 1)}
BY_TWO = {**THREE, "stride": (2, 2)}
FIRST = {"kernel_size": (7, 7), "padding": (3, 3), "stride": (2, 2)}


def problem(op: str = "conv2d", channels: int = 64, size: int = 28, **fields: object) -> LayerProblem:
    return LayerProblem(op, channels, size, size, channels, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layer", "by_bytes", "by_pairs"),
    [
        (problem(**THREE, density=0.2), True, True),
        (problem(**THREE, density=0.1), True, False),
        (problem(channels=128, **THREE, density=0.1), True, True),
        (problem(**THREE), True, False),
        (problem(**BY_TWO), True, True),
        (problem(channels=256, **BY_TWO, density=0.1), True, False),
        (problem(channels=3, size=224, **FIRST), True, False),
        (problem(**FIRST, density=0.3), True, True),
        (problem(), True, False),
        (problem(**THREE, groups=64), True, False),
        (problem("linear", 512, 1), True, True),
        (problem("linear", 512, 1, density=0.3), True, False),
        (problem("max_pool", **THREE), False, False),
    ],
)
def test_what_gains(layer: LayerProblem, by_bytes: bool, by_pairs: bool) -> None:
    found = [gains_from_int8(layer, products) for products in ("bytes", "pairs", "none")]
    assert found == [by_bytes, by_pairs, False]


def test_machines_say_what_they_have(isa: str, dot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = products_here(isa)
    assert found == "none" if isa == "scalar" else found in ("bytes", "pairs", "none")
    if dot == "never":
        assert found == {"avx512": "pairs", "avx2": "pairs", "wasm": "pairs"}.get(isa, "none")
    options = HostOptions(isa=isa, precision="int8")
    assert HostDevice(options).products == found
    assert bool(HostPlugin().advise(options)) == (found != "bytes")
    assert not HostPlugin().advise(HostOptions(isa=isa))


def test_few_layers_of_a_mobile_network_are_taken_by_pairs(rng: np.random.Generator) -> None:
    network = MOBILENET_V2.build(num_classes=10, input_size=64)
    model = Model(network, weights_for(network, rng))
    images = rng.standard_normal((2, 3, 64, 64), dtype=np.float32)
    products: tuple[Products, ...] = ("bytes", "pairs", "none")
    counts = [len(calibrate(model, images, products=p)) for p in products]
    assert counts[0] > 30
    assert counts[1:] == [1, 0]


def test_files_are_for_this_machine_or_for_the_one_that_is_named(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And run everywhere."""
    b = NetworkBuilder("network", (8, 12, 12))
    b.depthwise("depthwise", 3)
    model = Model(b.build(), weights_for(b.build(), rng))
    images = rng.standard_normal((2, 8, 12, 12), dtype=np.float32)
    path = tmp_path / "model.jcw"
    monkeypatch.setenv("JCW_ISA", "scalar")
    for products, precision in ((None, "float32"), ("bytes", "int8"), ("none", "float32")):
        JcwExporter().calibrated(images, Calibration(products=products)).export(model, path)  # type: ignore[arg-type]
        assert safetensors_metadata(path.read_bytes())["precision"] == precision
        assert np.isfinite(Program(path.read_bytes()).run(images)).all()
