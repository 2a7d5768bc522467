"""ResNet-18 and ResNet-50 (He et al. 2015, table 1), node for node with torchvision's parameter names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jcw_core.backbones.family import SMALL_INPUT, Family, scaled
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.space.bounds import Bound

_COMMON_BOUNDS = (
    Bound("conv1", width=0.5, density=1.0),
    Bound("fc", width=1.0, density=0.3),
    Bound("layer?.?.downsample.0", width=0.5, density=0.3),
)
RESNET18_BOUNDS = (
    *_COMMON_BOUNDS,
    Bound("layer?.?.conv2", width=0.5, density=0.2),  # writes the residual stream
    Bound("layer[234].0.conv1", width=0.25, density=0.2),  # strided
    Bound("layer?.?.conv1", width=0.25, density=0.1),
)
RESNET50_BOUNDS = (
    *_COMMON_BOUNDS,
    Bound("layer?.?.conv3", width=0.5, density=0.2),  # writes the residual stream
    Bound("layer[234].0.conv2", width=0.25, density=0.2),  # strided
    Bound("layer?.?.conv[12]", width=0.25, density=0.1),
)

Block = Callable[[NetworkBuilder, str, int, int], None]
"""Adds a block of that name, so many channels wide inside, with that stride."""


def resnet18(
    *, num_classes: int = 1000, width: float = 1.0, input_size: int = 224, in_channels: int = 3
) -> Network:
    """Four stages of two basic blocks each; small inputs get a 3 x 3 stem without strides."""
    net = NetworkBuilder("resnet18", (in_channels, input_size, input_size))
    return _resnet(net, _basic, (2, 2, 2, 2), num_classes, width)


def resnet50(
    *, num_classes: int = 1000, width: float = 1.0, input_size: int = 224, in_channels: int = 3
) -> Network:
    """Bottlenecks that halve in their 3 x 3 convolution, as torchvision's do; small inputs as in ``resnet18``."""
    net = NetworkBuilder("resnet50", (in_channels, input_size, input_size))
    return _resnet(net, _bottleneck, (3, 4, 6, 3), num_classes, width)


def _resnet(
    net: NetworkBuilder, block: Block, counts: Sequence[int], num_classes: int, width: float
) -> Network:
    small = net.shape("input")[1] <= SMALL_INPUT
    net.conv("conv1", scaled(64 * width, 4), 3 if small else 7, 1 if small else 2)
    net.batch_norm("bn1")
    net.add("relu", "relu")
    if not small:
        net.pool("maxpool", "max_pool", 3, 2, 1)
    for stage, count in enumerate(counts, start=1):
        channels = scaled(32 * 2**stage * width, 4)
        for index in range(count):
            block(net, f"layer{stage}.{index}", channels, 2 if stage > 1 and index == 0 else 1)
    net.add("avgpool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", num_classes)
    return net.build()


def _basic(net: NetworkBuilder, name: str, channels: int, stride: int) -> None:
    start = net.last
    shortcut = _shortcut(net, name, channels, stride)
    net.conv(f"{name}.conv1", channels, 3, stride, source=start)
    net.batch_norm(f"{name}.bn1")
    net.add(f"{name}.relu1", "relu")
    net.conv(f"{name}.conv2", channels, 3)
    net.add(f"{name}.add", "add", net.batch_norm(f"{name}.bn2"), shortcut)
    net.add(f"{name}.relu2", "relu")


def _bottleneck(net: NetworkBuilder, name: str, channels: int, stride: int) -> None:
    start = net.last
    shortcut = _shortcut(net, name, 4 * channels, stride)
    net.conv(f"{name}.conv1", channels, 1, source=start)
    net.batch_norm(f"{name}.bn1")
    net.add(f"{name}.relu1", "relu")
    net.conv(f"{name}.conv2", channels, 3, stride)
    net.batch_norm(f"{name}.bn2")
    net.add(f"{name}.relu2", "relu")
    net.conv(f"{name}.conv3", 4 * channels, 1)
    net.add(f"{name}.add", "add", net.batch_norm(f"{name}.bn3"), shortcut)
    net.add(f"{name}.relu3", "relu")


def _shortcut(net: NetworkBuilder, name: str, channels: int, stride: int) -> str:
    """What the block adds in the end; made first, so that the residual add fuses and finds its other input ready."""
    start = net.last
    if stride == 1 and net.channels(start) == channels:
        return start
    net.conv(f"{name}.downsample.0", channels, 1, stride)
    return net.batch_norm(f"{name}.downsample.1")


RESNET18 = Family("resnet18", RESNET18_BOUNDS, resnet18)
RESNET50 = Family("resnet50", RESNET50_BOUNDS, resnet50)
