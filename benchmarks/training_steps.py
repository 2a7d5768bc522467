"""A step of the supernet beside one of torch's own layers, for ``training.py``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from harness import Row
from pruned_models import BACKBONES
from torch import Tensor, nn

from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import pair
from jcw_core.network.shrink import shrink
from jcw_core.space.space import SearchSpace
from jcw_core.training.batches import Batch
from jcw_core.training.module import Slimmable
from jcw_core.training.optimizer import sgd
from jcw_core.training.options import Arithmetic, TrainingOptions
from jcw_core.training.precision import computing

RATE = TrainingOptions(epochs=1, batch_size=1, lr=0.01)


class Plain(nn.Module):
    """A network of torch's own layers, as anybody would write it."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._nodes = list(network)
        layers = {node.name.replace(".", "/"): _layer(network, node) for node in network}
        self.layers = nn.ModuleDict({name: layer for name, layer in layers.items() if layer is not None})

    def forward(self, images: Tensor) -> Tensor:
        """(n, classes) of (n, channels, height, width)."""
        values = {"": images}
        for node in self._nodes:
            inputs = [values[name] for name in node.inputs or ("",)]
            name = node.name.replace(".", "/")
            value = self.layers[name](*inputs) if name in self.layers else inputs[0]
            values[node.name] = inputs[0] + inputs[1] if node.op == "add" else value
        return value


def _layer(network: Network, node: Node) -> nn.Module | None:
    """The module of one node; None for a sum, the input and the output."""
    a, inputs = node.attributes, network.input_shapes(node)
    if node.op == "conv2d":
        channels, window = inputs[0][0], (pair(a, key) for key in ("kernel_size", "stride", "padding"))
        outputs = network.shapes[node.name][0]
        return nn.Conv2d(channels, outputs, *window, groups=int(str(a["groups"])), bias=bool(a["bias"]))
    made: dict[str, Callable[[], nn.Module]] = {
        "batch_norm": lambda: nn.BatchNorm2d(inputs[0][0]),
        "linear": lambda: nn.Linear(inputs[0][0], network.num_classes),
        "relu": lambda: nn.ReLU(inplace=True),
        "relu6": lambda: nn.ReLU6(inplace=True),
        "max_pool": lambda: nn.MaxPool2d(*(pair(a, key) for key in ("kernel_size", "stride", "padding"))),
        "global_avg_pool": lambda: nn.AdaptiveAvgPool2d(1),
        "flatten": nn.Flatten,
    }
    return made[node.op]() if node.op in made else None


def steps(args: argparse.Namespace) -> Iterator[Row]:
    """A row for each network and precision."""
    for name, width, size, count in args.steps:
        network = BACKBONES[name].build(num_classes=10, width=width, input_size=size)
        space, rng = SearchSpace.of(network, defaults=BACKBONES[name].bounds), np.random.default_rng(0)
        for precision in args.precisions:
            arithmetic = Arithmetic(precision, channels_last=True)
            images = torch.randn(count, *network.input_shape).contiguous(memory_format=torch.channels_last)
            batch, module = (images, torch.arange(count) % 10), Slimmable(network, rng)
            optimizer, taken = sgd(module, RATE), []
            for row in space.sample(args.rounds, rng):
                architecture = space.architecture(row)
                # The cut network has no densities: nothing in torch trains faster for them.
                plain = Plain(shrink(network, architecture)).to(memory_format=torch.channels_last)
                taken.append(
                    seconds(partial(module, images, architecture), optimizer, plain, batch, arithmetic)
                )
            yield {
                "kind": "step", "network": name, "width": width, "pixels": size, "images": count, "precision": precision,
                **ratios("supernet_ms", "plain_ms", 1e3 * np.array(taken)),
            }  # fmt: skip


def seconds(
    supernet: Callable[[], Tensor],
    optimizer: torch.optim.Optimizer,
    plain: nn.Module,
    batch: Batch,
    arithmetic: Arithmetic,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Of a step of the supernet and one of the plain module, the second of two each: a first one makes memory."""
    own, found = sgd(plain, RATE), []
    for forward, update in ((supernet, optimizer), (partial(plain, batch[0]), own)) * 2:
        began = clock()
        update.zero_grad(set_to_none=False)
        descend(forward, batch[1], arithmetic)
        update.step()
        finish(arithmetic.device)
        found.append(clock() - began)
    return found[2], found[3]


def finish(device: str) -> None:
    """Wait for what a GPU was given to do; a processor has done it."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def descend(forward: Callable[[], Tensor], labels: Tensor, arithmetic: Arithmetic) -> None:
    with computing(arithmetic):
        logits = forward()
    F.cross_entropy(logits.float(), labels).backward()  # type: ignore[no-untyped-call]


def ratios(first: str, second: str, taken_ms: np.ndarray) -> Row:
    """Medians of both columns, and of the first over the second with its quartiles."""
    shares = taken_ms[:, 0] / taken_ms[:, 1]
    low, middle, high = np.quantile(shares, [0.25, 0.5, 0.75]).tolist()
    medians = np.median(taken_ms, axis=0).tolist()
    return {first: medians[0], second: medians[1], "ratio": middle, "ratio_quartiles": [low, high]}
