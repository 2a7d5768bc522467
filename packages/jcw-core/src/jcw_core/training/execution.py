"""``execute``: runs a network's graph on torch tensors, one function per operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from torch import Tensor

from jcw_core.errors import DataError
from jcw_core.network.derived import derived
from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import LAYERS, dilation_of, integer, pair, sides
from jcw_core.ranks import Ranks
from jcw_core.training import together

Tensors = Mapping[str, Tensor]

_REPLACEABLE = LAYERS | {"batch_norm", "add"}
"""Operations that make a tensor of their own and whose gradients do not need it."""


@dataclass(frozen=True, slots=True)
class BatchNorm:
    """Where batch norm takes its statistics from.

    Args:
        statistics: ``NAME.running_mean`` and ``NAME.running_var`` of each node; None to use those of
            the batch and record nothing.
        momentum: weight of the batch when it is recorded into ``statistics``; None to use
            ``statistics`` as they are.
        ranks: the processes that have the batch, each a part of it; this one alone by default.
    """

    statistics: Tensors | None = None
    momentum: float | None = None
    ranks: Ranks = field(default_factory=Ranks)

    def __call__(self, node: Node, tensors: Tensors, value: Tensor) -> Tensor:
        """Normalise (n, channels, height, width).

        Raises:
            DataError: the statistics of a batch are wanted, and it has one value per channel.
        """
        training = self.statistics is None or self.momentum is not None
        alone = self.ranks.size == 1
        if training and alone and value.numel() == value.shape[1]:
            raise DataError(
                f"batch norm {node.name!r} works on 1 x 1 planes and got a batch of one image, "
                "which has no variance; give it two images or more"
            )
        mean = variance = None
        if self.statistics is not None:
            mean = self.statistics[f"{node.name}.running_mean"]
            variance = self.statistics[f"{node.name}.running_var"]
        weight, bias = tensors[f"{node.name}.weight"], tensors[f"{node.name}.bias"]
        eps, momentum = float(node.attributes["eps"]), self.momentum or 0.0  # type: ignore[arg-type]
        if alone or not training:
            return F.batch_norm(
                value, mean, variance, weight, bias, training=training, momentum=momentum, eps=eps
            )
        value, *found = together.batch_norm(value, weight, bias, eps, self.ranks)
        for running, of_batch in zip((mean, variance), found, strict=True):
            if running is not None:
                running.lerp_(of_batch.to(running.dtype), momentum)
        return value


def execute(
    network: Network,
    tensors: Tensors,
    images: Tensor,
    norm: BatchNorm,
    watch: Callable[[Node, Tensor], None] | None = None,
) -> Tensor:
    """Run a network.

    Args:
        network: its nodes; widths follow from ``tensors``, so it may be wider than they are.
        tensors: parameters by state-dict name.
        images: (n, channels, height, width).
        norm: batch-norm statistics.
        watch: told of each node's output, before anything overwrites it.

    Returns:
        logits (n, classes).
    """
    values: dict[str, Tensor] = {}
    for node, dead in _schedule(network):
        if node.op == "input":
            value = images
        elif node.op == "batch_norm":
            value = norm(node, tensors, values[node.inputs[0]])
        elif node.op == "prelu":
            value = F.prelu(values[node.inputs[0]], tensors[f"{node.name}.weight"])
        elif node.op in LAYERS:
            value = _weighted(node, tensors, values[node.inputs[0]])
        else:
            inputs = [values[name] for name in node.inputs]
            value = _PLAIN[node.op](node, inputs, may_overwrite(network, node))
        if watch is not None:
            watch(node, value)
        for name in dead:
            del values[name]
        values[node.name] = value
    return values[network.output.name].flatten(1)


def may_overwrite(network: Network, node: Node) -> bool:
    """Whether an activation may replace its input, which then nothing else reads.

    A value is not free when its last reader comes: ``flatten`` hands on a view of it, and the gradient
    of a convolution needs what it has read.
    """
    source = network[node.inputs[0]]
    return source.op in _REPLACEABLE and network.consumers[source.name] == (node.name,)


@derived
def _schedule(network: Network) -> tuple[tuple[Node, frozenset[str]], ...]:
    """Each node with the values that nothing reads after it."""
    last = {name: node.name for node in network for name in node.inputs}
    return tuple((node, frozenset(n for n in node.inputs if last[n] == node.name)) for node in network)


def _weighted(node: Node, tensors: Tensors, value: Tensor) -> Tensor:
    weight, bias = tensors[f"{node.name}.weight"], tensors.get(f"{node.name}.bias")
    if node.op == "linear":
        return F.linear(value, weight, bias)
    if node.op == "conv_transpose2d":
        return _transposed(node, value, weight, bias)
    # Not the attribute: the groups of a depthwise convolution follow the width.
    groups = value.shape[1] // weight.shape[1]
    stride, dilation = pair(node.attributes, "stride"), dilation_of(node.attributes)
    value, padding = padded(node, value)
    if _recorded():
        return F.conv2d(value, weight, bias, stride, padding, dilation, groups)
    if weight.shape[2:] == (1, 1) and stride != (1, 1):
        value, stride, padding = _sampled(value, stride, padding), (1, 1), (0, 0)
    windows = zip(value.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    # In bf16 oneDNN does not set the gradients of weights that meet nothing but padding: they are what was in memory
    # before; and its gradients of grouped convolutions take two to six times as long as in fp32 (torch 2.13).
    slow, on_cpu = groups > 1 and torch.is_grad_enabled(), value.device.type == "cpu"
    if on_cpu and (slow or any(_leaves_out(*window) for window in windows)):
        with torch.autocast("cpu", enabled=False):
            return F.conv2d(value.to(weight.dtype), weight, bias, stride, padding, dilation, groups)
    return F.conv2d(value, weight, bias, stride, padding, dilation, groups)


def _transposed(node: Node, value: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Torch has the weights of a transposed convolution as (in, out / groups, height, width)."""
    a, groups = node.attributes, value.shape[1] // weight.shape[1]
    top, left, bottom, right = sides(a)
    more = pair(a, "output_padding") if "output_padding" in a else (0, 0)
    turned = weight.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2).flatten(0, 1)
    # Rows and columns beyond the least padding are cut off afterwards.
    least = min(top, bottom), min(left, right)
    made = F.conv_transpose2d(value, turned, bias, pair(a, "stride"), least, more, groups, dilation_of(a))
    if (top, left) == (bottom, right):
        return made
    rows, columns = made.shape[2] - (bottom - least[0]), made.shape[3] - (right - least[1])
    return made[:, :, top - least[0] : rows, left - least[1] : columns]


def _recorded() -> bool:
    """Whether torch writes the network down, as for an ONNX file, where a convolution is to be one node."""
    # Older versions of torch do not tell an export from a compilation.
    exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
    return exporting() or bool(torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]


@lru_cache(maxsize=4096)
def _leaves_out(size: int, kernel: int, stride: int, padding: int, dilation: int) -> bool:
    """Whether some weights of a kernel meet nothing but padding, along one axis of ``size`` pixels."""
    starts = range(-padding, size + padding - (kernel - 1) * dilation, stride)
    taps = range(0, kernel * dilation, dilation)
    return any(all(not 0 <= start + tap < size for start in starts) for tap in taps)


def _sampled(value: Tensor, stride: tuple[int, int], padding: tuple[int, int]) -> Tensor:
    """What a 1 x 1 kernel sees of a plane: pixels -padding, -padding + stride and so on.

    oneDNN, which torch calls with the stride otherwise, copies these pixels too, and of rows with fewer channels
    than a vector has numbers it writes past its buffer when it computes the gradient of the weights
    (https://github.com/uxlfoundation/oneDNN/issues/6035, as of torch 2.13).
    """
    (rows, columns), (top, left) = stride, padding
    if top or left:
        value = F.pad(value, (left, left, top, top))
    return value[..., ::rows, ::columns]


def padded(node: Node, value: Tensor, fill: float = 0.0) -> tuple[Tensor, tuple[int, int]]:
    """The input, with the padding that is left: torch's own operations pad both ends of an axis alike."""
    top, left, bottom, right = sides(node.attributes)
    if (top, left) == (bottom, right):
        return value, (top, left)
    return F.pad(value, (left, right, top, bottom), value=fill), (0, 0)


def _pool(function: Callable[..., Tensor], fill: float) -> Callable[[Node, list[Tensor], bool], Tensor]:
    def pooled(node: Node, inputs: list[Tensor], inplace: bool) -> Tensor:
        value, padding = padded(node, inputs[0], fill)
        return function(value, pair(node.attributes, "kernel_size"), pair(node.attributes, "stride"), padding)

    return pooled


def _number(node: Node, key: str) -> float:
    value = node.attributes[key]
    assert isinstance(value, float)
    return value


def _size(node: Node) -> dict[str, Any]:
    """What torch is to be told of the size that a resizing operation makes."""
    if "size" in node.attributes:
        return {"size": pair(node.attributes, "size")}
    scale = pair(node.attributes, "scale") if "scale" in node.attributes else (1, 1)
    return {"scale_factor": tuple(map(float, scale))}


def _shuffled(value: Tensor, groups: int) -> Tensor:
    # Not torch's channel_shuffle, which has no place in ONNX files.
    return value.view(len(value), groups, -1, *value.shape[2:]).transpose(1, 2).flatten(1, 2)


_PLAIN: Mapping[str, Callable[[Node, list[Tensor], bool], Tensor]] = {
    "output": lambda node, inputs, inplace: inputs[0],
    "add": lambda node, inputs, inplace: inputs[0] + inputs[1],
    "mul": lambda node, inputs, inplace: inputs[0] * inputs[1],
    "concat": lambda node, inputs, inplace: torch.cat(inputs, 1),
    "flatten": lambda node, inputs, inplace: inputs[0].flatten(1),
    "global_avg_pool": lambda node, inputs, inplace: F.adaptive_avg_pool2d(inputs[0], 1),
    "max_pool": _pool(F.max_pool2d, -inf),
    "avg_pool": _pool(F.avg_pool2d, 0.0),
    "relu": lambda node, inputs, inplace: F.relu(inputs[0], inplace=inplace),
    "relu6": lambda node, inputs, inplace: F.relu6(inputs[0], inplace=inplace),
    "hardswish": lambda node, inputs, inplace: F.hardswish(inputs[0]),
    "hardsigmoid": lambda node, inputs, inplace: F.hardsigmoid(inputs[0]),
    "sigmoid": lambda node, inputs, inplace: torch.sigmoid(inputs[0]),
    "silu": lambda node, inputs, inplace: F.silu(inputs[0]),
    "clip": lambda node, inputs, inplace: inputs[0].clamp(_number(node, "low"), _number(node, "high")),
    "leaky_relu": lambda node, inputs, inplace: F.leaky_relu(inputs[0], _number(node, "slope")),
    "elu": lambda node, inputs, inplace: F.elu(inputs[0], _number(node, "alpha")),
    "softmax": lambda node, inputs, inplace: F.softmax(inputs[0], 1),
    "slice": lambda node, inputs, inplace: inputs[0][
        :, integer(node.attributes, "start") : integer(node.attributes, "stop")
    ],
    "channel_shuffle": lambda node, inputs, inplace: _shuffled(inputs[0], integer(node.attributes, "groups")),
    "resize_nearest": lambda node, inputs, inplace: F.interpolate(inputs[0], **_size(node), mode="nearest"),
    "resize_bilinear": lambda node, inputs, inplace: F.interpolate(
        inputs[0],
        **_size(node),
        mode="bilinear",
        align_corners=bool(node.attributes.get("align_corners")),
    ),
    "pixel_shuffle": lambda node, inputs, inplace: F.pixel_shuffle(
        inputs[0], integer(node.attributes, "factor")
    ),
    "unflatten": lambda node, inputs, inplace: inputs[0][:, :, None, None],
}
