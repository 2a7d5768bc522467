"""Steps of training for networks that halve their planes with 1 x 1 kernels, of every small number of channels.

A program of its own, so that malloc can watch its memory and a crash is an exit status.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import Tensor

from jcw_core.network import Network
from jcw_core.network_builder import NetworkBuilder
from jcw_core.supernet.arithmetic import computing
from jcw_core.supernet.module import Slimmable
from jcw_core.supernet.options import Arithmetic


def downsampling(channels: int, size: int) -> Network:
    """A residual block whose shortcut has a stride of two."""
    net = NetworkBuilder("downsampling", (3, size, size))
    start = net.conv("stem", channels, 3)
    main = net.conv("main", channels + 3, 3, 2, source=start)
    net.add("sum", "add", main, net.conv("shortcut", channels + 3, 1, 2, source=start))
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", 4)
    return net.build()


def gradients(module: Slimmable, images: Tensor, arithmetic: Arithmetic) -> dict[str, Tensor]:
    module.zero_grad()
    with computing(arithmetic):
        module(images).square().sum().backward()
    return {name: parameter.grad.double() for name, parameter in module.named_parameters()}


def check(channels: int, size: int) -> None:
    """Compare the gradients of a step with those of float64 in NCHW."""
    rng = np.random.default_rng([channels, size])
    module = Slimmable(downsampling(channels, size), rng)
    images = torch.from_numpy(rng.standard_normal((2, 3, size, size), dtype=np.float32))
    rows = images.contiguous(memory_format=torch.channels_last)
    found = gradients(module, rows, Arithmetic("fp32", channels_last=True))
    gradients(module, rows, Arithmetic("auto", channels_last=True))
    for name, expected in gradients(module.double(), images.double(), Arithmetic()).items():
        error = (found[name] - expected).abs().max() / expected.abs().max()
        assert error < 1e-4, f"{channels} channels of {size} x {size}: gradient of {name} is off by {error}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    for planes in map(int, sys.argv[1:]):
        for channels in range(2, 17):
            check(channels, planes)
