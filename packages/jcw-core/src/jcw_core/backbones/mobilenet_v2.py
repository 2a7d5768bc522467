"""MobileNetV2 (Sandler et al. 2018, table 2), node for node with torchvision's parameter names."""

from __future__ import annotations

from jcw_core.backbones.family import SMALL_INPUT, Family, scaled
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.space.bounds import Bound

BOUNDS = (
    Bound("features.0.0", width=0.5, density=1.0),
    Bound("features.18.0", width=0.5, density=0.1),
    Bound("classifier.1", width=1.0, density=0.3),
    Bound("features.1.conv.1", width=0.5, density=0.3),
    Bound("features.*.conv.2", width=0.5, density=0.2),  # writes the residual stream
    Bound("features.2.conv.1.0", width=0.5, density=1.0),  # strided, as the next three
    Bound("features.4.conv.1.0", width=0.5, density=1.0),
    Bound("features.7.conv.1.0", width=0.5, density=1.0),
    Bound("features.14.conv.1.0", width=0.5, density=1.0),
    Bound("*", width=0.25, density=0.1),
)

_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion factor, output channels, blocks, stride of the first block: t, c, n, s in the paper."""


def mobilenet_v2(
    *, num_classes: int = 1000, width: float = 1.0, input_size: int = 224, in_channels: int = 3
) -> Network:
    """Seven stages of inverted residuals; small inputs keep only the last three strides."""
    net = NetworkBuilder("mobilenet_v2", (in_channels, input_size, input_size))
    small = input_size <= SMALL_INPUT
    net.conv("features.0.0", scaled(32 * width, 8), 3, 1 if small else 2)
    _norm_relu6(net, "features.0")
    index = 0
    for stage, (expansion, channels, blocks, stride) in enumerate(_STAGES):
        for block in range(blocks):
            index += 1
            first = 1 if block or (small and stage == 1) else stride
            _inverted_residual(net, f"features.{index}", expansion, scaled(channels * width, 8), first)
    net.conv("features.18.0", scaled(1280 * max(1.0, width), 8), 1)
    _norm_relu6(net, "features.18")
    net.add("avgpool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("classifier.1", num_classes)
    return net.build()


def _inverted_residual(net: NetworkBuilder, name: str, expansion: int, channels: int, stride: int) -> None:
    start, width = net.last, net.channels(net.last)
    layer = 0
    if expansion != 1:
        net.conv(f"{name}.conv.0.0", expansion * width, 1)
        _norm_relu6(net, f"{name}.conv.0")
        layer = 1
    net.depthwise(f"{name}.conv.{layer}.0", 3, stride)
    _norm_relu6(net, f"{name}.conv.{layer}")
    net.conv(f"{name}.conv.{layer + 1}", channels, 1)
    net.batch_norm(f"{name}.conv.{layer + 2}")
    if stride == 1 and width == channels:
        net.add(f"{name}.add", "add", net.last, start)


def _norm_relu6(net: NetworkBuilder, name: str) -> None:
    net.batch_norm(f"{name}.1")
    net.add(f"{name}.2", "relu6")


MOBILENET_V2 = Family("mobilenet_v2", BOUNDS, mobilenet_v2)
