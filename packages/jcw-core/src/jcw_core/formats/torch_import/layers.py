"""Operators with weights or windows: convolutions, fully connected layers, batch norm and pooling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

import torch

from jcw_core.formats.torch_import.arguments import Pair, Sides, only, pair, same_padding, sides, sum_of
from jcw_core.formats.torch_import.exported import Operator
from jcw_core.formats.torch_import.translation import Obstacle, Translation, Value
from jcw_core.formats.windows import with_last_windows
from jcw_core.network.operations import span


def _conv2d(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    dilation = pair(a["dilation"])
    (source, outer), weight = net.padded(a["input"]), net.constant(a["weight"])
    padding = (
        same_padding(span(pair(weight.shape[2:]), dilation))
        if a["padding"] == "same"
        else sides(a["padding"])
    )
    weights = {"weight": weight} | ({} if a["bias"] is None else {"bias": net.constant(a["bias"])})
    return net.append_weighted(
        operator, a["weight"], "conv2d", source, weights,
        out_channels=len(weight), kernel_size=pair(weight.shape[2:]), stride=pair(a["stride"]),
        padding=sum_of(outer, padding), groups=int(a["groups"]), bias="bias" in weights, dilation=dilation,
    )  # fmt: skip


def _conv_transpose(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    source, weight = net.node(a["input"]), net.constant(a["weight"])
    stride, kernel, groups = pair(a["stride"]), pair(weight.shape[2:]), int(a["groups"])
    padding, more, dilation = pair(a["padding"]), pair(a["output_padding"]), pair(a["dilation"])
    plain = not any((*padding, *more)) and dilation == (1, 1) and groups == 1
    if plain and stride == kernel == (stride[0],) * 2:
        return _squares(net, operator, source, stride[0])
    turned = weight.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2).flatten(0, 1)
    weights = {"weight": turned} | ({} if a["bias"] is None else {"bias": net.constant(a["bias"])})
    return net.append_weighted(
        operator, a["weight"], "conv_transpose2d", source, weights,
        out_channels=len(turned), kernel_size=kernel, stride=stride, padding=padding, groups=groups,
        bias="bias" in weights, dilation=dilation, output_padding=more,
    )  # fmt: skip


def _squares(net: Translation, operator: Operator, source: str, factor: int) -> Value:
    """A transposed convolution whose windows do not overlap: a 1 x 1 one that makes the pixels of each square as channels."""
    a, weight = operator.arguments, net.constant(operator.arguments["weight"])
    inputs, outputs = weight.shape[:2]
    made = int(outputs) * factor**2
    weights = {"weight": weight.permute(1, 2, 3, 0).reshape(made, inputs, 1, 1)}
    if a["bias"] is not None:
        weights["bias"] = net.constant(a["bias"]).repeat_interleave(factor**2)
    point = net.append_weighted(
        operator, a["weight"], "conv2d", source, weights,
        out_channels=made, kernel_size=(1, 1), stride=(1, 1), padding=(0, 0), groups=1, bias="bias" in weights,
    )  # fmt: skip
    return net.append(operator, "pixel_shuffle", point, factor=factor)


def _linear(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    source, weight = net.node(a["input"]), net.constant(a["weight"])
    weights = {"weight": weight} | ({} if a["bias"] is None else {"bias": net.constant(a["bias"])})
    return net.append_weighted(
        operator, a["weight"], "linear", source, weights, out_features=len(weight), bias="bias" in weights
    )


def _batch_norm(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    if a["running_mean"] is None or a["running_var"] is None:
        raise Obstacle("a batch norm without running statistics depends on the batch")
    mean, variance = net.constant(a["running_mean"]), net.constant(a["running_var"])
    weights = {
        "weight": torch.ones_like(mean) if a["weight"] is None else net.constant(a["weight"]),
        "bias": torch.zeros_like(mean) if a["bias"] is None else net.constant(a["bias"]),
        "running_mean": mean,
        "running_var": variance,
    }
    named = a["running_mean"] if a["weight"] is None else a["weight"]
    return net.append_weighted(
        operator, named, "batch_norm", net.node(a["input"]), weights, eps=float(a["eps"])
    )


def _windows(operator: Operator, size: tuple[int, ...]) -> tuple[Pair, Pair, Sides, bool]:
    """Kernel, stride, padding, and whether the last windows hang over the edge."""
    a = operator.arguments
    kernel, padding = pair(a["kernel_size"]), sides(a["padding"])
    stride = pair(a["stride"]) if a["stride"] else kernel
    wider = with_last_windows(padding, size, kernel, stride) if a["ceil_mode"] else padding
    return kernel, stride, sum_of(wider, (0, 0, 0, 0)), wider != padding


def _max_pool(net: Translation, operator: Operator) -> Value:
    if pair(operator.arguments["dilation"]) != (1, 1):
        raise Obstacle("a max pooling with a dilation has no place in a network")
    source, outer = net.padded(operator.arguments["self"], fill=-inf)
    height, width = net.builder.shape(source)[1:]
    size = height + outer[0] + outer[2], width + outer[1] + outer[3]
    kernel, stride, padding, _ = _windows(operator, size)
    padding = sum_of(outer, padding)
    return net.append(operator, "max_pool", source, kernel_size=kernel, stride=stride, padding=padding)


def _avg_pool(net: Translation, operator: Operator) -> Value:
    only(operator, divisor_override=None)
    source, outer = net.padded(operator.arguments["self"])
    height, width = net.builder.shape(source)[1:]
    size = height + outer[0] + outer[2], width + outer[1] + outer[3]
    kernel, stride, padding, hangs_over = _windows(operator, size)
    if hangs_over:
        raise Obstacle("a mean over windows that hang over the edge (ceil_mode) has no place in a network")
    if any(padding):
        only(operator, count_include_pad=True)
    padding = sum_of(outer, padding)
    return net.append(operator, "avg_pool", source, kernel_size=kernel, stride=stride, padding=padding)


def _adaptive_pool(net: Translation, operator: Operator) -> Value:
    source = net.node(operator.arguments["self"])
    wanted, (_, *found) = pair(operator.arguments["output_size"]), net.builder.shape(source)
    if wanted == (1, 1):
        return net.append(operator, "global_avg_pool", source)
    if any(size % out for size, out in zip(found, wanted, strict=True)):
        raise Obstacle(f"an adaptive pooling of {tuple(found)} to {wanted} has windows of several sizes")
    kernel = found[0] // wanted[0], found[1] // wanted[1]
    if kernel == (1, 1):
        return source
    return net.append(operator, "avg_pool", source, kernel_size=kernel, stride=kernel, padding=(0, 0))


def _mean(net: Translation, operator: Operator) -> Value:
    a, source = operator.arguments, net.node(operator.arguments["self"])
    rank = len(net.builder.shape(source)) + 1
    if rank != 4 or sorted(axis % rank for axis in a["dim"] or ()) != [2, 3]:
        raise Obstacle(
            f"a mean over the axes {a['dim']} has no place in a network; over height and width has"
        )
    pooled = net.append(operator, "global_avg_pool", source)
    return pooled if a["keepdim"] else net.append(operator, "flatten", pooled)


LAYERS: Mapping[str, Callable[[Translation, Operator], Value]] = {
    "conv2d": _conv2d,
    "conv_transpose2d": _conv_transpose,
    "linear": _linear,
    "batch_norm": _batch_norm,
    "max_pool2d": _max_pool,
    "avg_pool2d": _avg_pool,
    "adaptive_avg_pool2d": _adaptive_pool,
    "mean": _mean,
}
