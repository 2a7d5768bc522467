"""Backbones: the literature's counts, torchvision's names, small inputs, widths, bounds."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from math import prod

import numpy as np
import pytest
from core_networks import image_of, random_weights, run

from jcw_core.backbones.family import scaled
from jcw_core.backbones.mobilenet_v1 import mobilenet_v1
from jcw_core.backbones.mobilenet_v2 import mobilenet_v2
from jcw_core.backbones.resnet import resnet18, resnet50
from jcw_core.errors import NetworkError
from jcw_core.registry import Registry
from jcw_core.space.space import SearchSpace

NAMES = ("mobilenet_v1", "mobilenet_v2", "resnet18", "resnet50")


def backbone(name: str):
    return Registry().backbones[name]


@pytest.mark.parametrize(
    ("build", "parameters", "macs"),
    [
        (resnet18, 11_689_512, 1_814_073_344),
        (resnet50, 25_557_032, 4_089_184_256),
        (mobilenet_v1, 4_231_976, 568_740_352),
        (mobilenet_v2, 3_504_872, 300_774_272),
    ],
)
def test_counts_of_the_literature(build, parameters: int, macs: int) -> None:
    network = build()
    assert (network.parameters, network.macs) == (parameters, macs)
    assert network.shapes[network.output.name] == (1000,)


@pytest.mark.parametrize(
    ("width", "parameters", "macs_in_millions"),
    [(0.75, 2_585_560, 325), (0.5, 1_331_592, 149), (0.25, 470_072, 41)],
)
def test_mobilenet_v1_at_the_published_widths(width: float, parameters: int, macs_in_millions: int) -> None:
    """Howard et al. 2017, table 6 (2.6, 1.3 and 0.5 million parameters; 325, 149 and 41 million MACs)."""
    network = mobilenet_v1(width=width)
    assert network.parameters == parameters
    assert round(network.macs / 1e6) == macs_in_millions


@pytest.mark.parametrize(("width", "millions"), [(0.35, 1.66), (0.5, 1.95), (0.75, 2.61), (1.4, 6.06)])
def test_mobilenet_v2_at_the_published_widths(width: float, millions: float) -> None:
    """Parameters, in millions, of the models that MobileNetV2's authors published at 224 pixels."""
    assert mobilenet_v2(width=width).parameters / 1e6 == pytest.approx(millions, abs=0.06)


def _layer(name: str, *shape: int, norm: str = "") -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", shape
    for key in ("weight", "bias", "running_mean", "running_var") if norm else ():
        yield f"{norm}.{key}", shape[:1]


def _torchvision_resnet18() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from _layer("conv1", 64, 3, 7, 7, norm="bn1")
    before = 64
    for stage in (1, 2, 3, 4):
        out = 32 * 2**stage
        for block in (0, 1):
            path = f"layer{stage}.{block}"
            yield from _layer(f"{path}.conv1", out, before, 3, 3, norm=f"{path}.bn1")
            yield from _layer(f"{path}.conv2", out, out, 3, 3, norm=f"{path}.bn2")
            if before != out:
                yield from _layer(f"{path}.downsample.0", out, before, 1, 1, norm=f"{path}.downsample.1")
            before = out
    yield from (("fc.weight", (1000, 512)), ("fc.bias", (1000,)))


def _torchvision_resnet50() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from _layer("conv1", 64, 3, 7, 7, norm="bn1")
    before = 64
    for stage, blocks in enumerate((3, 4, 6, 3), start=1):
        inner = 32 * 2**stage
        for block in range(blocks):
            path = f"layer{stage}.{block}"
            yield from _layer(f"{path}.conv1", inner, before, 1, 1, norm=f"{path}.bn1")
            yield from _layer(f"{path}.conv2", inner, inner, 3, 3, norm=f"{path}.bn2")
            yield from _layer(f"{path}.conv3", 4 * inner, inner, 1, 1, norm=f"{path}.bn3")
            if block == 0:
                yield from _layer(
                    f"{path}.downsample.0", 4 * inner, before, 1, 1, norm=f"{path}.downsample.1"
                )
            before = 4 * inner
    yield from (("fc.weight", (1000, 2048)), ("fc.bias", (1000,)))


def _torchvision_mobilenet_v2() -> Iterator[tuple[str, tuple[int, ...]]]:
    outs = [16, 24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160, 160, 160, 320]
    yield from _layer("features.0.0", 32, 3, 3, 3, norm="features.0.1")
    before = 32
    for index, out in enumerate(outs, start=1):
        path = f"features.{index}.conv"
        if index == 1:
            yield from _layer(f"{path}.0.0", 32, 1, 3, 3, norm=f"{path}.0.1")
            yield from _layer(f"{path}.1", 16, 32, 1, 1, norm=f"{path}.2")
        else:
            yield from _layer(f"{path}.0.0", 6 * before, before, 1, 1, norm=f"{path}.0.1")
            yield from _layer(f"{path}.1.0", 6 * before, 1, 3, 3, norm=f"{path}.1.1")
            yield from _layer(f"{path}.2", out, 6 * before, 1, 1, norm=f"{path}.3")
        before = out
    yield from _layer("features.18.0", 1280, 320, 1, 1, norm="features.18.1")
    yield from (("classifier.1.weight", (1000, 1280)), ("classifier.1.bias", (1000,)))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (resnet18, _torchvision_resnet18),
        (resnet50, _torchvision_resnet50),
        (mobilenet_v2, _torchvision_mobilenet_v2),
    ],
)
def test_state_dicts_of_torchvision_fit_by_name(build, expected) -> None:
    network = build()
    assert {**network.parameter_shapes, **network.buffer_shapes} == dict(expected())


def test_macs_of_mobilenet_v2_from_its_table() -> None:
    """Output sizes by hand: 112 for the stem, halved at features 2, 4, 7 and 14."""
    shapes = dict(_torchvision_mobilenet_v2())
    side, macs = 112, 0
    for name, shape in shapes.items():
        if len(shape) == 2:
            macs += prod(shape)
        if len(shape) != 4:
            continue
        block = int(name.split(".")[1])
        if block in (2, 4, 7, 14) and name.endswith("conv.1.0.weight"):
            side //= 2
        macs += prod(shape) * side**2
    assert mobilenet_v2().macs == macs == 300_774_272


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("size", "last"), [(28, 4), (32, 4), (64, 8), (96, 3), (224, 7)])
def test_small_inputs_keep_a_plane_to_the_end(name: str, size: int, last: int) -> None:
    network = backbone(name).build(num_classes=10, input_size=size, in_channels=1)
    pool = next(node for node in network if node.op == "global_avg_pool")
    assert network.input_shapes(pool)[0][1:] == (last, last)
    assert network.num_classes == 10
    assert network.input_shape == (1, size, size)


@pytest.mark.parametrize("name", NAMES)
def test_a_narrow_network_computes(name: str) -> None:
    network = backbone(name).build(num_classes=3, input_size=28, in_channels=1, width=0.1)
    rng = np.random.default_rng(0)
    output = run(network, random_weights(network, rng), image_of(network, rng))["output"]
    assert output.shape == (3,)
    assert np.isfinite(output).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [0.01, 0.1, 0.33, 0.5, 1.0, 1.4])
def test_channels_are_whole_groups_at_every_width(name: str, width: float) -> None:
    network = backbone(name).build(width=width)
    channels = [network.shapes[n.name][0] for n in network if n.op == "conv2d"]
    assert all(c % 4 == 0 for c in channels)


def test_rounding_of_channels() -> None:
    assert [scaled(c, 8) for c in (1, 8, 11.2, 12, 11.9, 33.6, 1280)] == [8, 8, 16, 16, 16, 32, 1280]
    for channels in np.linspace(0.5, 200, 500):
        assert scaled(channels, 8) % 8 == 0
        assert scaled(channels, 8) >= 0.9 * channels
        assert scaled(channels, 8) - channels <= 8


@pytest.mark.parametrize("width", [0, -1, float("nan")])
def test_impossible_widths(width: float) -> None:
    with pytest.raises(NetworkError, match="must be above 0"):
        resnet18(width=width)


@pytest.mark.parametrize("change", [{"num_classes": 0}, {"input_size": 0}, {"in_channels": 0}])
@pytest.mark.parametrize("build", [resnet18, resnet50, mobilenet_v1, mobilenet_v2])
def test_impossible_sizes(build, change: dict[str, int]) -> None:
    with pytest.raises(NetworkError):
        build(**change)


@pytest.mark.parametrize("name", NAMES)
def test_each_bound_holds_for_some_layer(name: str) -> None:
    """A pattern that never decides anything is a slip of the pen."""
    plugin = backbone(name)
    layers = [node.name for node in plugin.build() if node.op in ("conv2d", "linear")]
    deciding = [next(b for b in plugin.bounds if fnmatch.fnmatchcase(layer, b.layers)) for layer in layers]
    assert set(deciding) == set(plugin.bounds)


@pytest.mark.parametrize("name", NAMES)
def test_first_last_strided_and_residual_layers_are_treated_gently(name: str) -> None:
    plugin = backbone(name)
    network = plugin.build()
    space = SearchSpace.of(network, defaults=plugin.bounds)
    width = {v.name: v.low / v.maximum for v in space.variables if v.kind == "width"}
    density = {v.name: v.low for v in space.variables if v.kind == "density"}
    common_width, common_density = min(width.values()), min(density.values())
    layers = [node for node in network if node.op in ("conv2d", "linear")]
    assert width[layers[0].name] > common_width
    assert density[layers[-1].name] > common_density
    for node in layers:
        reads = network[node.inputs[0]].op
        if node.attributes.get("stride") == (2, 2) and reads != "input" and node.name in density:
            assert density[node.name] > common_density
    for node in network:
        if node.op == "add":
            for source in node.inputs:
                layer = network[source].inputs[0]
                if layer in density:
                    assert density[layer] > common_density


@pytest.mark.parametrize("name", NAMES)
def test_a_network_resized_keeps_its_strides_and_its_weights(name: str) -> None:
    large = backbone(name).build(num_classes=10)
    network = large.resized(64, 96)
    pool = next(node for node in network if node.op == "global_avg_pool")
    assert network.input_shape == (3, 64, 96)
    assert network.input_shapes(pool)[0][1:] == (2, 3)
    assert network.parameter_shapes == large.parameter_shapes
    assert network.resized(224, 224) == large
