"""ResNet-18 (He et al. 2015, table 1), node for node with torchvision's parameter names."""

from __future__ import annotations

from jcw_core.backbones.family import SMALL_INPUT, Family, scaled
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.space.bounds import Bound

BOUNDS = (
    Bound("conv1", width=0.5, density=1.0),
    Bound("fc", width=1.0, density=0.3),
    Bound("layer?.?.downsample.0", width=0.5, density=0.3),
    Bound("layer?.?.conv2", width=0.5, density=0.2),  # writes the residual stream
    Bound("layer[234].0.conv1", width=0.25, density=0.2),  # strided
    Bound("layer?.?.conv1", width=0.25, density=0.1),
)


def resnet18(
    *, num_classes: int = 1000, width: float = 1.0, input_size: int = 224, in_channels: int = 3
) -> Network:
    """Four stages of two basic blocks each; small inputs get a 3 x 3 stem without strides."""
    net = NetworkBuilder("resnet18", (in_channels, input_size, input_size))
    kernel, stride = (3, 1) if input_size <= SMALL_INPUT else (7, 2)
    net.conv("conv1", scaled(64 * width, 4), kernel, stride)
    net.batch_norm("bn1")
    net.add("relu", "relu")
    if input_size > SMALL_INPUT:
        net.pool("maxpool", "max_pool", 3, 2, 1)
    for stage, (channels, stride) in enumerate([(64, 1), (128, 2), (256, 2), (512, 2)], start=1):
        _block(net, f"layer{stage}.0", scaled(channels * width, 4), stride)
        _block(net, f"layer{stage}.1", scaled(channels * width, 4), 1)
    net.add("avgpool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", num_classes)
    return net.build()


def _block(net: NetworkBuilder, name: str, channels: int, stride: int) -> None:
    shortcut = start = net.last
    if stride != 1 or net.channels(start) != channels:
        # Before conv2, so that the residual add fuses into conv2 and finds its other input ready.
        net.conv(f"{name}.downsample.0", channels, 1, stride)
        shortcut = net.batch_norm(f"{name}.downsample.1")
    net.conv(f"{name}.conv1", channels, 3, stride, source=start)
    net.batch_norm(f"{name}.bn1")
    net.add(f"{name}.relu1", "relu")
    net.conv(f"{name}.conv2", channels, 3)
    net.add(f"{name}.add", "add", net.batch_norm(f"{name}.bn2"), shortcut)
    net.add(f"{name}.relu2", "relu")


RESNET18 = Family("resnet18", BOUNDS, resnet18)
