"""What each operator of ATen is in a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import accumulate
from math import inf, prod
from typing import Any

import torch

from jcw_core.formats.torch_import.exported import Operator
from jcw_core.formats.torch_import.translation import Grouped, Obstacle, Padded, Translation, Value
from jcw_core.formats.windows import with_last_windows
from jcw_core.network.node import LARGEST
from jcw_core.network.operations import LARGEST_FLOAT

_Pair = tuple[int, int]


def _pair(value: Any) -> _Pair:
    values = [value, value] if isinstance(value, int) else list(value)
    if len(values) == 1:
        values *= 2
    if len(values) != 2 or not all(isinstance(v, int) for v in values):
        raise Obstacle(f"{value!r:.40} is no pair of whole numbers; only two axes have a place")
    return values[0], values[1]


def _only(operator: Operator, **expected: Any) -> None:
    """Refuse an argument that asks for more than a network can say."""
    for key, value in expected.items():
        found = operator.arguments.get(key, value)
        if (list(found) if isinstance(found, (list, tuple)) else found) != value:
            raise Obstacle(f"{operator.op} with {key} = {found!r:.40} has no place in a network")


def _conv2d(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    if _pair(a["dilation"]) != (1, 1):
        raise Obstacle(f"a convolution with dilation {a['dilation']} has no place in a network")
    (source, outer), weight = net.padded(a["input"]), net.constant(a["weight"])
    padding = _same_padding(weight.shape[2:]) if a["padding"] == "same" else _sides(a["padding"])
    weights = {"weight": weight} | ({} if a["bias"] is None else {"bias": net.constant(a["bias"])})
    return net.append_weighted(
        operator, a["weight"], "conv2d", source, weights,
        out_channels=len(weight), kernel_size=_pair(weight.shape[2:]), stride=_pair(a["stride"]),
        padding=_sum_of(outer, padding), groups=int(a["groups"]), bias="bias" in weights,
    )  # fmt: skip


def _conv_transpose(net: Translation, operator: Operator) -> Value:
    """One whose windows do not overlap: a 1 x 1 convolution that makes the pixels of each square as channels."""
    a = operator.arguments
    source, weight = net.node(a["input"]), net.constant(a["weight"])
    stride, kernel = _pair(a["stride"]), _pair(weight.shape[2:])
    plain = not any((*_pair(a["padding"]), *_pair(a["output_padding"]))) and _pair(a["dilation"]) == (1, 1)
    if not plain or a["groups"] != 1 or stride != kernel or stride[0] != stride[1]:
        raise Obstacle(
            f"a transposed convolution with a kernel {kernel} and stride {stride} has no place in a network; one whose "
            "kernel is its stride, square, without padding and groups, has"
        )
    inputs, outputs, factor = *weight.shape[:2], stride[0]
    made = int(outputs) * factor**2
    weights = {"weight": weight.permute(1, 2, 3, 0).reshape(made, inputs, 1, 1)}
    if a["bias"] is not None:
        weights["bias"] = net.constant(a["bias"]).repeat_interleave(factor**2)
    point = net.append_weighted(
        operator, a["weight"], "conv2d", source, weights,
        out_channels=made, kernel_size=(1, 1), stride=(1, 1), padding=(0, 0), groups=1, bias="bias" in weights,
    )  # fmt: skip
    return net.append(operator, "pixel_shuffle", point, factor=factor)


def _pixel_shuffle(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    return net.append(operator, "pixel_shuffle", net.node(a["self"]), factor=int(a["upscale_factor"]))


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


def _activation(op: str, net: Translation, operator: Operator) -> Value:
    return net.append(operator, op, net.node(operator.arguments["self"]))


def _clip(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    low, high = (a["min_val"], a["max_val"]) if "min_val" in a else (a["min"], a["max"])
    if low == 0 and high in (6, None):
        return net.append(operator, "relu6" if high else "relu", net.node(a["self"]))
    limits = [-LARGEST_FLOAT if low is None else float(low), LARGEST_FLOAT if high is None else float(high)]
    return net.append(
        operator,
        "clip",
        net.node(a["self"]),
        low=max(limits[0], -LARGEST_FLOAT),
        high=min(limits[1], LARGEST_FLOAT),
    )


def _leaky_relu(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    return net.append(operator, "leaky_relu", net.node(a["self"]), slope=float(a["negative_slope"]))


def _elu(net: Translation, operator: Operator) -> Value:
    _only(operator, scale=1, input_scale=1)
    return net.append(
        operator, "elu", net.node(operator.arguments["self"]), alpha=float(operator.arguments["alpha"])
    )


def _prelu(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    source, weight = net.node(a["self"]), net.constant(a["weight"])
    channels = net.builder.channels(source)
    return net.append_weighted(
        operator, a["weight"], "prelu", source, {"weight": weight.reshape(-1).expand(channels)}
    )


def _softmax(net: Translation, operator: Operator) -> Value:
    axis, rank = operator.arguments["dim"], len(operator.shape)
    if axis % rank != 1:
        raise Obstacle(f"a softmax along axis {axis} has no place in a network; along channels has")
    return net.append(operator, "softmax", net.node(operator.arguments["self"]))


def _channels(net: Translation, operator: Operator, start: int, stop: int) -> Value:
    a, source = operator.arguments, net.node(operator.arguments["self"])
    rank, channels = len(net.builder.shape(source)) + 1, net.builder.channels(source)
    if a["dim"] % rank != 1:
        size = (1, *net.builder.shape(source))[a["dim"] % rank]
        if start == 0 and stop >= size:
            return source
        raise Obstacle(f"a part along axis {a['dim']} has no place in a network; one of channels has")
    start, stop = (min(n + channels if n < 0 else n, channels) for n in (start, stop))
    if (start, stop) == (0, channels):
        return source
    return net.append(operator, "slice", source, start=start, stop=stop)


def _slice(net: Translation, operator: Operator) -> Value:
    _only(operator, step=1)
    a = operator.arguments
    return _channels(net, operator, a["start"] or 0, LARGEST if a["end"] is None else a["end"])


def _narrow(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    return _channels(net, operator, a["start"], a["start"] + a["length"])


def _split(net: Translation, operator: Operator) -> Value:
    a, channels = operator.arguments, net.builder.channels(net.node(operator.arguments["self"]))
    sizes = a.get("split_size", a.get("split_sizes"))
    if operator.op == "chunk":
        sizes = -(-channels // a["chunks"])
    if isinstance(sizes, int):
        sizes = [min(sizes, channels - start) for start in range(0, channels, sizes)]
    stops = list(accumulate(sizes))
    return [_channels(net, operator, stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]


def _item(net: Translation, operator: Operator) -> Value:
    values, index = net.value(operator.arguments["0"]), operator.arguments["1"]
    if not isinstance(values, list):
        raise Obstacle("takes one of several values, and there is one")
    return values[index]  # type: ignore[no-any-return]


def _transpose(net: Translation, operator: Operator) -> Value:
    a, value = operator.arguments, net.value(operator.arguments["self"])
    if isinstance(value, Grouped) and {a["dim0"] % 5, a["dim1"] % 5} == {1, 2} and not value.is_turned:
        return replace(value, is_turned=True)
    raise Obstacle("a transposition has no place in a network; that of a channel shuffle has")


def _shuffle(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    return net.append(operator, "channel_shuffle", net.node(a["self"]), groups=int(a["groups"]))


def _resize(op: str, net: Translation, operator: Operator) -> Value:
    _only(operator, align_corners=False)
    source = net.node(operator.arguments.get("input", operator.arguments.get("self")))
    (_, height, width), (rows, columns) = net.builder.shape(source), operator.shape[2:]
    if rows % height or columns % width:
        raise Obstacle(f"a change of size from {(height, width)} to {(rows, columns)} is by no whole factor")
    factors = rows // height, columns // width
    return source if factors == (1, 1) else net.append(operator, op, source, scale=factors)


def _sum(net: Translation, operator: Operator) -> Value:
    _only(operator, alpha=1)
    return _both("add", net, operator)


def _both(op: str, net: Translation, operator: Operator) -> Value:
    first, second = (net.node(operator.arguments[key]) for key in ("self", "other"))
    if prod(net.builder.shape(first)) < prod(net.builder.shape(second)):
        first, second = second, first  # the network's product has its factor of one value per channel second
    return net.append(operator, op, first, second)


def _cat(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    sources = [net.node(argument) for argument in a["tensors"]]
    if a["dim"] % len(operator.shape) != 1:
        raise Obstacle(f"a concatenation along axis {a['dim']} has no place in a network; along channels has")
    return net.append(operator, "concat", *sources)


_Sides = tuple[int, int, int, int]


def _sides(padding: Any) -> _Sides:
    """(top, left, bottom, right)."""
    if isinstance(padding, str):
        return 0, 0, 0, 0  # "valid"
    return (*_pair(padding), *_pair(padding))


def _same_padding(kernel: Any) -> _Sides:
    """What torch calls same: at the ends of an axis half each, the larger half at the second."""
    height, width = _pair(kernel)
    return (height - 1) // 2, (width - 1) // 2, height // 2, width // 2


def _sum_of(outer: tuple[int, ...], inner: _Sides) -> _Sides:
    top, left, bottom, right = (one + other for one, other in zip(outer, inner, strict=True))
    return top, left, bottom, right


def _windows(operator: Operator, size: tuple[int, ...]) -> tuple[_Pair, _Pair, _Sides, bool]:
    """Kernel, stride, padding, and whether the last windows hang over the edge."""
    a = operator.arguments
    kernel, padding = _pair(a["kernel_size"]), _sides(a["padding"])
    stride = _pair(a["stride"]) if a["stride"] else kernel
    wider = with_last_windows(padding, size, kernel, stride) if a["ceil_mode"] else padding
    return kernel, stride, _sum_of(wider, (0, 0, 0, 0)), wider != padding


def _max_pool(net: Translation, operator: Operator) -> Value:
    if _pair(operator.arguments["dilation"]) != (1, 1):
        raise Obstacle("a max pooling with a dilation has no place in a network")
    source, outer = net.padded(operator.arguments["self"], fill=-inf)
    height, width = net.builder.shape(source)[1:]
    size = height + outer[0] + outer[2], width + outer[1] + outer[3]
    kernel, stride, padding, _ = _windows(operator, size)
    padding = _sum_of(outer, padding)
    return net.append(operator, "max_pool", source, kernel_size=kernel, stride=stride, padding=padding)


def _avg_pool(net: Translation, operator: Operator) -> Value:
    _only(operator, divisor_override=None)
    source, outer = net.padded(operator.arguments["self"])
    height, width = net.builder.shape(source)[1:]
    size = height + outer[0] + outer[2], width + outer[1] + outer[3]
    kernel, stride, padding, hangs_over = _windows(operator, size)
    if hangs_over:
        raise Obstacle("a mean over windows that hang over the edge (ceil_mode) has no place in a network")
    if any(padding):
        _only(operator, count_include_pad=True)
    padding = _sum_of(outer, padding)
    return net.append(operator, "avg_pool", source, kernel_size=kernel, stride=stride, padding=padding)


def _pad(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    if a.get("mode", "constant") != "constant":
        raise Obstacle(f"padding that is {a['mode']} has no place in a network; constant has")
    sides = [*a["pad"], *[0] * (4 - len(a["pad"]))]
    if len(sides) != 4 or min(sides) < 0:
        raise Obstacle(
            f"padding by {a['pad']} has no place in a network; of height and width has, by 0 or more"
        )
    left, right, top, bottom = sides
    source, outer = net.node(a["self"]), (top, left, bottom, right)
    if not any(outer):
        return source
    return Padded(source, outer, float(a.get("value") or 0.0))


def _adaptive_pool(net: Translation, operator: Operator) -> Value:
    source = net.node(operator.arguments["self"])
    wanted, (_, *found) = _pair(operator.arguments["output_size"]), net.builder.shape(source)
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


def _reshaped(net: Translation, operator: Operator) -> Value:
    argument = operator.arguments.get("self", operator.arguments.get("input"))
    value = net.value(argument)
    if isinstance(value, Grouped):
        if operator.shape[1:] != net.builder.shape(value.source):
            raise Obstacle("groups of channels have no place in a network; those of a channel shuffle have")
        if not value.is_turned:
            return value.source
        return net.append(operator, "channel_shuffle", value.source, groups=value.groups)
    source = net.node(argument)
    shape, wanted = net.builder.shape(source), operator.shape[1:]
    if wanted == shape:
        return source
    # Torch keeps an axis of one element where the network's vectors have none, as when axes go one by one.
    if [size for size in wanted if size != 1] == [prod(shape)] and wanted[0] != 1 and len(wanted) < 3:
        return net.append(operator, "flatten", source)
    if len(shape) == 3 and len(wanted) == 4 and wanted[2:] == shape[1:]:
        return Grouped(source, wanted[0])
    if wanted == (*shape, 1, 1):
        return net.append(operator, "unflatten", source)
    raise Obstacle(f"a change of shape from {shape} to {wanted} has no place in a network; a flat one has")


def _expanded(net: Translation, operator: Operator) -> Value:
    """One value per channel as often as there are pixels: products take it as it is."""
    source = net.node(operator.arguments["self"])
    shape, wanted = net.builder.shape(source), operator.shape[1:]
    if wanted != shape and (len(shape) != 3 or shape[1:] != (1, 1) or wanted[:1] != shape[:1]):
        raise Obstacle(f"{shape} repeated to {wanted} has no place in a network; one value per channel has")
    return source


def _unchanged(net: Translation, operator: Operator) -> Value:
    _only(operator, train=False)
    return net.value(
        next(iter(operator.arguments[key] for key in ("self", "input") if key in operator.arguments))
    )


OPERATORS: Mapping[str, Callable[[Translation, Operator], Value]] = {
    "conv2d": _conv2d,
    "conv_transpose2d": _conv_transpose,
    "pixel_shuffle": _pixel_shuffle,
    "linear": _linear,
    "batch_norm": _batch_norm,
    **{
        op: partial(_activation, op)
        for op in ("relu", "relu6", "hardswish", "hardsigmoid", "sigmoid", "silu")
    },
    "hardtanh": _clip,
    "clamp": _clip,
    "add": _sum,
    "mul": partial(_both, "mul"),
    "cat": _cat,
    "concat": _cat,
    "max_pool2d": _max_pool,
    "avg_pool2d": _avg_pool,
    "adaptive_avg_pool2d": _adaptive_pool,
    "mean": _mean,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "prelu": _prelu,
    "_prelu_kernel": _prelu,
    "softmax": _softmax,
    "slice": _slice,
    "narrow": _narrow,
    **dict.fromkeys(("split", "split_with_sizes", "chunk"), _split),
    "getitem": _item,
    "transpose": _transpose,
    **dict.fromkeys(("channel_shuffle", "native_channel_shuffle"), _shuffle),
    "upsample_nearest2d": partial(_resize, "resize_nearest"),
    "upsample_bilinear2d": partial(_resize, "resize_bilinear"),
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
    **dict.fromkeys(("flatten", "view", "reshape", "squeeze", "unsqueeze", "unsafe_view"), _reshaped),
    **dict.fromkeys(("expand", "expand_as"), _expanded),
    **dict.fromkeys(("dropout", "feature_dropout", "alias", "clone", "contiguous", "detach"), _unchanged),
}
"""By operator, without its overload. What is not here is an obstacle, and is named."""
