"""Models that read images, and say how a file becomes their input."""

from __future__ import annotations

import numpy as np

from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.image_input import ImageInput
from jcw_core.network.model import Model

IMAGES = ImageInput((0.5, 0.4, 0.3), (0.2, 0.3, 0.25), 16, ("cat", "dog", "ant", "bee"), "data")


def model(padding: int, groups: int, *, bias: bool, norm: bool, branches: int = 1) -> Model:
    """Convolutions that read the input, each with or without a bias and a batch norm."""
    rng = np.random.default_rng(padding + 2 * groups)
    channels = 6 if groups == 3 else 5
    net = NetworkBuilder("reads_images", (3, 12, 10))
    ends = []
    for number in range(branches):
        last = net.add(
            f"conv{number}", "conv2d", "input", out_channels=channels, kernel_size=(3, 3), stride=(2, 2),
            padding=(padding, padding), groups=groups, bias=bias,
        )  # fmt: skip
        if norm:
            last = net.add(f"bn{number}", "batch_norm", last, eps=1e-3)
        ends.append(net.add(f"relu{number}", "relu", last))
    if branches > 1:
        net.add("sum", "add", *ends)
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", 4)
    network = net.build()
    shapes = {**network.parameter_shapes, **network.buffer_shapes}
    drawn = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    weights = {n: np.abs(a) + 0.5 if n.endswith("running_var") else a for n, a in drawn.items()}
    return Model(network, weights, images=IMAGES)
