"""MobileNetV1 (Howard et al. 2017, table 1)."""

from __future__ import annotations

from jcw_core.backbones.family import SMALL_INPUT, Family, scaled
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.space.bounds import Bound

BOUNDS = (
    Bound("conv", width=0.5, density=1.0),
    Bound("classifier", width=1.0, density=0.3),
    Bound("block13.*", width=0.5, density=0.1),  # features of the classifier
    Bound("block[246].depthwise", width=0.5, density=1.0),  # strided, as the next
    Bound("block12.depthwise", width=0.5, density=1.0),
    Bound("block1.*", width=0.5, density=0.2),
    Bound("*", width=0.25, density=0.1),
)

_BLOCKS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1), (512, 1),
    (512, 1), (1024, 2), (1024, 1),
)  # fmt: skip
"""Output channels and stride. The paper prints stride 2 for the last, which its output sizes rule out."""


def mobilenet_v1(
    *, num_classes: int = 1000, width: float = 1.0, input_size: int = 224, in_channels: int = 3
) -> Network:
    """A convolution and 13 depthwise separable ones; small inputs keep only the last three strides."""
    net = NetworkBuilder("mobilenet_v1", (in_channels, input_size, input_size))
    small = input_size <= SMALL_INPUT
    net.conv("conv", scaled(32 * width, 8), 3, 1 if small else 2)
    net.batch_norm("bn")
    net.add("relu", "relu")
    for index, (channels, stride) in enumerate(_BLOCKS, start=1):
        name = f"block{index}"
        net.depthwise(f"{name}.depthwise", 3, 1 if small and index == 2 else stride)
        net.batch_norm(f"{name}.bn1")
        net.add(f"{name}.relu1", "relu")
        net.conv(f"{name}.pointwise", scaled(channels * width, 8), 1)
        net.batch_norm(f"{name}.bn2")
        net.add(f"{name}.relu2", "relu")
    net.add("avgpool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("classifier", num_classes)
    return net.build()


MOBILENET_V1 = Family("mobilenet_v1", BOUNDS, mobilenet_v1)
