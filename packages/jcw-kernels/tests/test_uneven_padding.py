"""Padding whose sides differ, in every form in which a window is computed."""

from __future__ import annotations

import itertools

import kernel_reference as reference
import numpy as np
import pytest
from kernel_samples import EPS, check, weights_for

from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network


def network(op: str, kernel: int, stride: int, padding: tuple[int, ...], before: str) -> Network:
    net = NetworkBuilder("net", (8, 11, 10))
    net.conv("point", 8, 1)
    if before:
        net.add("act", before)
    attributes = {"kernel_size": (kernel, kernel), "stride": (stride, stride), "padding": padding}
    if op.endswith("pool"):
        net.add("window", op, **attributes)
    else:
        groups = 8 if op == "depthwise" else 2 if op == "grouped" else 1
        net.add("window", "conv2d", out_channels=8, groups=groups, bias=True, **attributes)
    return net.build()


@pytest.mark.parametrize("op", ["conv", "grouped", "depthwise", "max_pool", "avg_pool"])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 1), (2, 2), (3, 1), (3, 2), (5, 2), (4, 3)])
def test_every_side(op: str, kernel: int, stride: int, isa: str, rng: np.random.Generator) -> None:
    sides = [s for s in itertools.product(range(kernel), repeat=4) if s[:2] != s[2:]]
    tensorflow = [(0, 0, 1, 1), (0, 1, 0, 0), (1, 0, 0, 0)]
    for padding in [*tensorflow, *(sides[i] for i in rng.choice(len(sides), 3))]:
        for before in ("", "relu"):
            net = network(op, kernel, stride, padding, before)
            arrays = weights_for(net, rng, rng.choice([0.3, 1.0]))
            image = rng.standard_normal((1, *net.input_shape), dtype=np.float32)
            absolute = {name: np.abs(array) for name, array in arrays.items()}
            terms = 8 + 8 * kernel**2
            bound = EPS * (terms + 1) * reference.run(net, absolute, np.abs(image[0])).max()
            check(net, arrays, image, bound, isa=isa)
