"""A step of the supernet and one of torch's own dense network as shares of what a device can do, for ``training.py``.

The same code on a GPU and on a processor. What a device can do is what a large product of matrices reaches in the same
precision. Operations are those of convolutions and linear layers, at density 1: masks save none in training.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from harness import Row
from pruned_models import BACKBONES
from training_steps import RATE, Plain, finish, seconds

from jcw_core.network.graph import Network
from jcw_core.network.shrink import shrink
from jcw_core.space.space import SearchSpace
from jcw_core.training.module import Slimmable
from jcw_core.training.optimizer import sgd
from jcw_core.training.options import Arithmetic
from jcw_core.training.precision import has_bf16
from jcw_kernels.host import cpu_name

_PRODUCTS = 8
"""Of matrices, of which the fastest counts."""


def arithmetic_on(accelerator: str) -> Arithmetic:
    """How a run with ``precision = "auto"`` computes there: in bf16, or fp32 on a processor that multiplies no bf16."""
    precision = "bf16" if accelerator == "cuda" or has_bf16() else "fp32"
    return Arithmetic(precision, channels_last=True, device="cuda:0" if accelerator == "cuda" else "cpu")


def device_name(arithmetic: Arithmetic) -> str:
    """For people."""
    return torch.cuda.get_device_name(0) if arithmetic.device != "cpu" else f"a core of {cpu_name()}"


def clock_of(arithmetic: Arithmetic) -> Callable[[], float]:
    """Of a core what it works for this process, as others may use it too; of a GPU that of the wall."""
    return time.process_time if arithmetic.device == "cpu" else time.perf_counter


def peak(args: argparse.Namespace) -> Iterator[Row]:
    """A row for each network: milliseconds of steps, TFLOP/s, and shares of the peak (medians of the rounds)."""
    arithmetic = arithmetic_on(args.accelerator)
    most = matrix_flops(args.matrix, arithmetic)
    for name, width, size, count in args.peak:
        network = BACKBONES[name].build(num_classes=1000, width=width, input_size=size)
        space = SearchSpace.of(network, defaults=BACKBONES[name].bounds)
        taken, flops = _rounds(space, count, args.rounds, arithmetic)
        rates = np.median(flops / taken, axis=0)
        drawn, dense = np.median(taken, axis=0) * 1e3
        yield {
            "kind": "peak", "network": name, "width": width, "pixels": size, "images": count,
            "precision": arithmetic.precision, "device": device_name(arithmetic),
            "supernet_ms": float(drawn), "dense_ms": float(dense), "peak_tflops": most / 1e12,
            "supernet_share": float(rates[0] / most), "dense_share": float(rates[1] / most), "torch": torch.__version__,
        }  # fmt: skip


def _rounds(
    space: SearchSpace, count: int, rounds: int, arithmetic: Arithmetic
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and operations (rounds, 2) of a step of a drawn sub-network in the supernet and of the dense network."""
    network, rng = space.network, np.random.default_rng(0)
    images = torch.randn(count, *network.input_shape, device=arithmetic.device)
    images = images.contiguous(memory_format=torch.channels_last)
    batch = images, torch.arange(count, device=arithmetic.device) % network.num_classes
    module = Slimmable(network, rng).to(arithmetic.device)
    dense = Plain(network).to(arithmetic.device).to(memory_format=torch.channels_last)
    optimizer, taken, flops = sgd(module, RATE), [], []
    for row in space.sample(rounds, rng):
        architecture = space.architecture(row)
        forward = partial(module, images, architecture)
        taken.append(seconds(forward, optimizer, dense, batch, arithmetic, clock_of(arithmetic)))
        flops.append([count * training_flops(one) for one in (shrink(network, architecture), network)])
    return np.array(taken), np.array(flops)


def training_flops(network: Network) -> int:
    """Of a training step on an image, two for a multiply-accumulate: forward, and as many again for the gradients of
    weights and of inputs; of images nobody wants a gradient.
    """
    first = sum(network.node_macs(node) for node in network if network.input.name in node.inputs)
    return 2 * (3 * network.macs - first)


def matrix_flops(size: int, arithmetic: Arithmetic) -> float:
    """Floating-point operations a second of the product of two square matrices of ``size`` rows."""
    kind = torch.bfloat16 if arithmetic.precision == "bf16" else torch.float32
    one, other = (torch.randn(size, size, device=arithmetic.device, dtype=kind) for _ in range(2))
    clock, taken = clock_of(arithmetic), []
    for _ in range(_PRODUCTS + 1):  # the first makes memory
        began = clock()
        torch.mm(one, other)
        finish(arithmetic.device)
        taken.append(clock() - began)
    return 2 * size**3 / min(taken[1:])
