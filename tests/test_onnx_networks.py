"""ONNX files that were written elsewhere give networks that cost and compute what they should."""

from __future__ import annotations

import io
import warnings
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import jcw
from core_networks import image_of, networks, random_weights, run
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from jcw_core.formats.onnx_reader import read_onnx
from jcw_core.formats.onnx_writer import OnnxExporter
from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.model import Model
from jcw_core.network.problem import LayerProblem
from jcw_core.registry import Registry
from jcw_core.training.module import Slimmable
from jcw_latency import LatencyTable

BACKBONES = sorted(Registry().backbones)


def problems(network: Network) -> list[LayerProblem]:
    return [problem_of(network, unit) for unit in fuse(network)]


def backbone(name: str) -> Network:
    return Registry().backbones[name].build(num_classes=10, width=0.25, input_size=64)


def exported(module: nn.Module, shape: tuple[int, ...], path: Path, **options: Any) -> Network:
    """Write a module with torch's exporter that needs no package beside torch, and read it back."""
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(), (torch.zeros(1, *shape),), content, dynamo=False, input_names=["images"], **options
        )
    path.write_bytes(content.getvalue())
    return read_onnx(path)


@pytest.mark.parametrize("name", BACKBONES)
def test_our_own_files_give_the_same_layers(name: str, tmp_path: Path) -> None:
    network = backbone(name)
    OnnxExporter().export(
        Model(network, random_weights(network, np.random.default_rng(0))), tmp_path / f"{name}.onnx"
    )
    read = read_onnx(tmp_path / f"{name}.onnx")
    assert problems(read) == problems(network)
    assert [unit.name for unit in fuse(read)] == [unit.name for unit in fuse(network)]
    assert (read.name, read.macs, read.parameter_shapes) == (name, network.macs, network.parameter_shapes)


@settings(max_examples=60)
@given(network=networks(), seed=st.integers(0, 2**32 - 1))
def test_random_networks_compute_the_same(tmp_path: Path, network: Network, seed: int) -> None:
    """Operators that became one, such as x sigmoid(x), included."""
    rng = np.random.default_rng(seed)
    weights, image = random_weights(network, rng), image_of(network, rng)
    OnnxExporter().export(Model(network, weights), tmp_path / "random.onnx")
    read = read_onnx(tmp_path / "random.onnx")
    want = run(network, weights, image)["output"]
    got = run(read, {name: weights[name] for name in read.parameter_shapes | read.buffer_shapes}, image)
    np.testing.assert_allclose(got["output"], want, rtol=1e-4, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("name", BACKBONES)
def test_onnx_files_that_torch_exports_give_the_same_layers(name: str, tmp_path: Path) -> None:
    network = backbone(name)
    module = Slimmable(network, np.random.default_rng(0))
    read = exported(module, network.input_shape, tmp_path / "net.onnx", opset_version=13)
    assert problems(read) == problems(network)
    assert read.macs == network.macs


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * functional.hardsigmoid(
            self.expand(functional.relu(self.reduce(functional.adaptive_avg_pool2d(x, 1))))
        )


class Mobile(nn.Module):
    """Blocks of MobileNetV3 and EfficientNet, the activations also as people write them by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1, bias=False)
        self.norm, self.act = nn.BatchNorm2d(8), nn.Hardswish()
        self.depthwise = nn.Conv2d(8, 8, 5, 1, 2, groups=8)
        self.excite, self.project = SqueezeExcite(8), nn.Conv2d(8, 8, 1)
        self.drop, self.classify = nn.Dropout(), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        start = self.act(self.norm(self.stem(x)))
        x = self.project(self.excite(functional.relu6(self.depthwise(start)))) + start
        x = torch.cat([x * functional.relu6(x + 3) / 6, functional.silu(x)], 1)
        x = x.mean((2, 3)) if x.shape[2] < 9 else functional.max_pool2d(x, 3, 2, 1).mean((2, 3))
        return self.classify(self.drop(x.view(x.size(0), -1)))


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("axes", [{}, {"images": {0: "n"}}], ids=["one image", "any number of images"])
def test_torch_modules_that_know_nothing_of_this_project(opset: int, axes: Any, tmp_path: Path) -> None:
    network = exported(Mobile(), (3, 16, 16), tmp_path / "net.onnx", opset_version=opset, dynamic_axes=axes)
    assert [(p.op, p.in_channels, p.out_channels, p.activation, p.residual) for p in problems(network)] == [
        ("conv2d", 3, 8, "hardswish", False),
        ("conv2d", 8, 8, "relu6", False),
        ("global_avg_pool", 8, 8, "", False),
        ("conv2d", 8, 4, "relu", False),
        ("conv2d", 4, 8, "hardsigmoid", False),
        ("scale", 8, 8, "", False),
        ("conv2d", 8, 8, "", True),
        ("hardswish", 8, 8, "", False),
        ("silu", 8, 8, "", False),
        ("concat", 16, 16, "", False),
        ("global_avg_pool", 16, 16, "", False),
        ("flatten", 16, 16, "", False),
        ("linear", 16, 5, "", False),
    ]
    shapes = {"stem": (8, 3, 3, 3), "depthwise": (8, 1, 5, 5), "project": (8, 8, 1, 1)}
    macs = sum(prod(shape) for shape in shapes.values()) * 8 * 8 + 8 * 4 + 4 * 8 + 16 * 5
    assert network.macs == macs
    names = ["stem", "depthwise", "excite.reduce", "excite.expand", "project", "classify"]
    assert [unit.name for unit in fuse(network) if unit.node.op in ("conv2d", "linear")] == names


def test_an_onnx_file_is_profiled_on_this_machine(tmp_path: Path) -> None:
    """By the engine, whole runs and their check included, whatever the file calls its nodes."""
    exported(Mobile(), (3, 16, 16), tmp_path / "mobile.onnx", opset_version=13)
    quick = ["--set", "widths=2", "--set", "densities=2", "--set", "min_rounds=2", "--set", "rounds=2"]
    options = ["--option", "layer_ms=0.05", "--option", "model_ms=0.1", "--set", "whole_networks=3"]
    done = jcw("profile", "mobile.onnx", "--device", "host", *quick, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = LatencyTable.load(tmp_path / "table.npz")
    assert table.network() == read_onnx(tmp_path / "mobile.onnx")
    assert table.end_to_end["mobile"].scale > 0
    (tmp_path / "half.json").write_text('{"widths": {"stem": 4}, "densities": {"project": 0.5}}')
    assert "half.json: " in jcw("predict", "table.npz", "half.json", cwd=tmp_path).stdout
    done = jcw("check", "table.npz", "--networks", "2", "--rounds", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 networks, run whole" in done.stdout


class PaddedAsTensorflow(nn.Module):
    """Sides that differ are padded by a step of their own, and a size is that of another value."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.depthwise = nn.Conv2d(3, 8, 3, stride=2), nn.Conv2d(8, 8, 5, stride=2, groups=8)
        self.head = nn.Conv2d(16, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.relu6(self.stem(nn.functional.pad(x, (0, 1, 0, 1))))
        small = self.depthwise(nn.functional.pad(x, (1, 2, 1, 2)))
        large = nn.functional.interpolate(small, size=x.shape[2:], mode="nearest")
        return self.head(torch.cat([x, large], 1))


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_padding_as_torch_exports_it(tmp_path: Path, opset: int) -> None:
    from jcw_core.formats.onnx_reader import read_onnx_model

    exported(PaddedAsTensorflow(), (3, 32, 32), tmp_path / "net.onnx", opset_version=opset)
    found = read_onnx_model(tmp_path / "net.onnx").network  # which compares
    padding = [node.attributes["padding"] for node in found if node.op == "conv2d"]
    assert padding == [(0, 0, 1, 1), (1, 1, 2, 2), (0, 0)]
