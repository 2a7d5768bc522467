"""Operators that move values, join or resize them, and those that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import accumulate
from math import prod

from torch import Tensor

from jcw_core.formats.ones import picking, widening
from jcw_core.formats.torch_import.arguments import only
from jcw_core.formats.torch_import.exported import Operator
from jcw_core.formats.torch_import.translation import Grouped, Obstacle, Padded, Translation, Value
from jcw_core.network.node import LARGEST
from jcw_core.network.operations import resizing


def _pixel_shuffle(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    return net.append(operator, "pixel_shuffle", net.node(a["self"]), factor=int(a["upscale_factor"]))


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
    a = operator.arguments
    start, stop = a["start"] or 0, LARGEST if a["end"] is None else a["end"]
    if a.get("step", 1) == 1:
        return _channels(net, operator, start, stop)
    return _every(net, operator, start, stop, a["step"])


def _every(net: Translation, operator: Operator, start: int, stop: int, step: int) -> Value:
    """Every so manyth row or column, from one of the first to the last."""
    source = net.node(operator.arguments["self"])
    shape = (1, *net.builder.shape(source))
    axis = operator.arguments["dim"] % len(shape)
    if len(shape) != 4 or axis < 2 or not 0 <= start < step or stop < shape[axis]:
        raise Obstacle(
            f"pixels {start} to {stop} of axis {axis} in steps of {step} have no place in a network; those of whole rows and columns have"
        )
    kernel, stride = ((start + 1, 1), (step, 1)) if axis == 2 else ((1, start + 1), (1, step))
    return net.append_made(operator.name, source, picking(shape[1], kernel, stride))


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
    a = operator.arguments
    source = net.node(a.get("input", a.get("self")))
    before, after = net.builder.shape(source)[1:], operator.shape[2:]
    if after == before:
        return source
    factors = a.get("scale_factors") or (a.get("scales_h"), a.get("scales_w"))
    for factor, old, new in zip(factors, before, after, strict=True):
        if factor is not None and factor * old != new:
            raise Obstacle(
                f"a change of size from {before} to {after} by {factor}, which is not their ratio, has no place in a "
                "network; recompute_scale_factor=True makes it so"
            )
    corners = {"align_corners": True} if a.get("align_corners") else {}
    return net.append(operator, op, source, **resizing(before, after), **corners)


def _resize_exact(net: Translation, operator: Operator) -> Value:
    """To the nearest pixel counted from centres, which by whole factors is the one that is counted from edges."""
    a = operator.arguments
    before = net.builder.shape(net.node(a.get("input", a.get("self"))))[1:]
    if "size" in resizing(before, operator.shape[2:]):
        raise Obstacle("nearest-exact by other than whole factors has no place in a network; nearest has")
    return _resize("resize_nearest", net, operator)


def _cat(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    sources = [net.node(argument) for argument in a["tensors"]]
    if a["dim"] % len(operator.shape) != 1:
        raise Obstacle(f"a concatenation along axis {a['dim']} has no place in a network; along channels has")
    return net.append(operator, "concat", *sources)


def _pad(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    if a.get("mode", "constant") != "constant":
        raise Obstacle(f"padding that is {a['mode']} has no place in a network; constant has")
    sides, fill = [*a["pad"], *[0] * (6 - len(a["pad"]))], float(a.get("value") or 0.0)
    if len(sides) != 6 or min(sides) < 0 or len(operator.shape) != 4 or (fill and any(sides[4:])):
        raise Obstacle(
            f"padding by {a['pad']} has no place in a network; of height and width of planes has, by 0 or more, and of their channels with 0"
        )
    left, right, top, bottom, before, after = sides
    source, outer = net.node(a["self"]), (top, left, bottom, right)
    if before or after:
        source = net.append_made(operator.name, source, widening(net.builder.channels(source), before, after))
    if not any(outer):
        return source
    return Padded(source, outer, fill)


def _reshaped(net: Translation, operator: Operator) -> Value:
    argument = operator.arguments.get("self", operator.arguments.get("input"))
    value = net.value(argument)
    if isinstance(value, Grouped):
        if operator.shape[1:] != net.builder.shape(value.source):
            raise Obstacle("groups of channels have no place in a network; those of a channel shuffle have")
        if not value.is_turned:
            return value.source
        return net.append(operator, "channel_shuffle", value.source, groups=value.groups)
    if isinstance(value, Tensor):
        return value.reshape(operator.shape)
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
    only(operator, train=False)
    return net.value(
        next(iter(operator.arguments[key] for key in ("self", "input") if key in operator.arguments))
    )


SHAPES: Mapping[str, Callable[[Translation, Operator], Value]] = {
    "pixel_shuffle": _pixel_shuffle,
    "cat": _cat,
    "concat": _cat,
    "slice": _slice,
    "narrow": _narrow,
    **dict.fromkeys(("split", "split_with_sizes", "chunk"), _split),
    "getitem": _item,
    "transpose": _transpose,
    **dict.fromkeys(("channel_shuffle", "native_channel_shuffle"), _shuffle),
    "upsample_nearest2d": partial(_resize, "resize_nearest"),
    "_upsample_nearest_exact2d": _resize_exact,
    "upsample_bilinear2d": partial(_resize, "resize_bilinear"),
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
    **dict.fromkeys(("flatten", "view", "reshape", "squeeze", "unsqueeze", "unsafe_view"), _reshaped),
    **dict.fromkeys(("expand", "expand_as"), _expanded),
    **dict.fromkeys(("dropout", "feature_dropout", "alias", "clone", "contiguous", "detach"), _unchanged),
}
