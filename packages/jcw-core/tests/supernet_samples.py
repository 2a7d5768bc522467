"""Networks that between them use every way in which channels are tied, and a dataset in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network


def residual() -> Network:
    net = NetworkBuilder("residual", (3, 8, 8))
    net.conv("conv1", 12, 3)
    net.batch_norm("bn1")
    start = net.add("relu", "relu")
    net.conv("block.conv1", 10, 3)
    net.batch_norm("block.bn1")
    net.add("block.relu", "relu")
    net.conv("block.conv2", 12, 3)
    net.add("block.add", "add", net.batch_norm("block.bn2"), start)
    net.add("block.out", "relu")
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", 5)
    return net.build()


def depthwise() -> Network:
    net = NetworkBuilder("depthwise", (3, 8, 8))
    net.conv("conv1", 16, 3, 2)
    net.batch_norm("bn1")
    net.add("act1", "relu6")
    net.depthwise("dw", 3)
    net.batch_norm("bn2")
    net.add("act2", "hardswish")
    net.conv("pw", 20, 1, bias=True)
    net.add("flatten", "flatten")
    net.linear("hidden", 16)
    net.add("act3", "silu")
    net.linear("fc", 5)
    return net.build()


def squeeze_excite() -> Network:
    net = NetworkBuilder("squeeze-excite", (3, 8, 8))
    net.conv("conv1", 16, 3)
    net.batch_norm("bn1")
    trunk = net.add("act1", "relu")
    net.add("squeeze", "global_avg_pool")
    net.conv("reduce", 8, 1, bias=True)
    net.add("act2", "relu")
    net.conv("expand", 16, 1, bias=True)
    gate = net.add("gate", "hardsigmoid")
    net.add("scale", "mul", trunk, gate)
    net.pool("pool", "avg_pool", 2, 2)
    net.add("flatten", "flatten")
    net.linear("fc", 5)
    return net.build()


def concat() -> Network:
    net = NetworkBuilder("concat", (3, 8, 8))
    start = net.conv("conv1", 8, 3)
    left = net.conv("left", 12, 1, source=start)
    right = net.conv("right", 8, 3, source=start)
    net.add("both", "concat", left, right, start)
    net.batch_norm("bn")
    net.add("act", "sigmoid")
    net.depthwise("dw", 3)
    net.pool("pool", "max_pool", 3, 2, 1)
    net.conv("mix", 16, 3, groups=4)
    net.add("flatten", "flatten")
    net.linear("fc", 5)
    return net.build()


def transposed() -> Network:
    net = NetworkBuilder("transposed", (3, 8, 8))
    net.conv("conv1", 16, 3, 2)
    net.batch_norm("bn1")
    start = net.add("act1", "relu")
    window = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1), "output_padding": (1, 1)}
    net.add("up", "conv_transpose2d", start, out_channels=12, groups=1, bias=True, **window)
    wide = net.add("act2", "relu")
    net.add("smooth", "conv_transpose2d", wide, out_channels=12, groups=12, bias=False, **window)
    net.batch_norm("bn2")
    net.add("act3", "relu")
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", 5)
    return net.build()


BUILDERS = {
    "residual": residual,
    "depthwise": depthwise,
    "squeeze-excite": squeeze_excite,
    "concat": concat,
    "transposed": transposed,
}


@dataclass(frozen=True)
class Blobs:
    """Noise with a bright square, whose colour and size are its class."""

    count: int
    classes: tuple[str, ...] = ("a", "b", "c", "d", "e")
    mean: tuple[float, ...] = (0.3, 0.3, 0.3)
    std: tuple[float, ...] = (0.2, 0.2, 0.2)
    image_shape: tuple[int, int, int] = (3, 8, 8)

    def __len__(self) -> int:
        return self.count

    @property
    def labels(self) -> np.ndarray:
        return np.arange(self.count, dtype=np.int64) % len(self.classes)

    def images(self, indices: np.ndarray) -> np.ndarray:
        pixels = np.random.default_rng(1).integers(0, 120, (self.count, 3, 8, 8), dtype=np.uint8)[indices]
        for image, label in zip(pixels, self.labels[indices], strict=True):
            image[label % 3, 2 : 4 + label // 3 * 3, 2:6] = 255
        return pixels
