"""Steps of training for networks whose convolutions torch's libraries have got wrong.

A program of its own, so that malloc can watch its memory and a crash is an exit status.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic
from jcw_core.training.precision import computing

BOUNDS = {"fp32": 1e-4, "bf16": 0.3}
"""How far a gradient may be off, as a share of the largest of its tensor."""


def downsampling() -> Iterator[Network]:
    """Residual blocks whose shortcuts halve planes with a 1 x 1 kernel, of every small number of channels."""
    for size in (16, 48, 96):
        for channels in range(2, 17):
            net = NetworkBuilder(f"{channels} channels of {size} x {size}", (3, size, size))
            start = net.conv("stem", channels, 3)
            main = net.conv("main", channels + 3, 3, 2, source=start)
            net.add("sum", "add", main, net.conv("shortcut", channels + 3, 1, 2, source=start))
            yield _classified(net)


def small_planes() -> Iterator[Network]:
    """Kernels larger than the planes that they work on, whose outer weights may meet only padding."""
    for size in (1, 2, 3):
        for kernel in (3, 5):
            for stride in (1, 2, 3):
                name = f"kernels of {kernel} x {kernel}, stride {stride}, planes of {size} x {size}"
                net = NetworkBuilder(name, (3, size, size))
                net.conv("stem", 18, kernel)
                net.depthwise("dw", kernel, stride)
                net.conv("full", 20, kernel, stride)
                yield _classified(net)


def _classified(net: NetworkBuilder) -> Network:
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", 4)
    return net.build()


def gradients(module: Slimmable, images: Tensor, arithmetic: Arithmetic) -> dict[str, Tensor]:
    module.zero_grad()
    with computing(arithmetic):
        module(images).square().sum().backward()
    return {name: parameter.grad.double() for name, parameter in module.named_parameters()}


def check(network: Network) -> None:
    """Compare the gradients of a step with those of float64 in NCHW."""
    rng = np.random.default_rng(0)
    module = Slimmable(network, rng)
    images = torch.from_numpy(rng.standard_normal((2, *network.input_shape), dtype=np.float32))
    rows = images.contiguous(memory_format=torch.channels_last)
    found = {precision: gradients(module, rows, Arithmetic(precision, True)) for precision in BOUNDS}
    for name, expected in gradients(module.double(), images.double(), Arithmetic()).items():
        for precision, bound in BOUNDS.items():
            error = (found[precision][name] - expected).abs().max() / expected.abs().max()
            assert error < bound, f"{network.name}, {precision}: gradient of {name} is off by {error}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    for network in {"downsampling": downsampling, "small planes": small_planes}[sys.argv[1]]():
        check(network)
