"""Every operation in float64 and plain numpy: what the engine is judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from jcw_core.network.graph import Network, Node

F64 = NDArray[np.float64]


def windows(x: F64, kernel: Any, stride: Any, padding: Any, fill: float = 0.0, dilation: Any = (1, 1)) -> F64:
    """(c, h, w) to (c, out_h, out_w, kh, kw); padding is (height, width) or (top, left, bottom, right)."""
    top, left, bottom, right = tuple(padding) * (4 // len(padding))
    pad = ((0, 0), (top, bottom), (left, right))
    padded = np.pad(x, pad, constant_values=fill)
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    view = sliding_window_view(padded, reach, axis=(1, 2))
    return view[:, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def conv(x: F64, weight: F64, stride: Any, padding: Any, groups: int, dilation: Any = (1, 1)) -> F64:
    _, per_group, kh, kw = weight.shape
    view = windows(x, (kh, kw), stride, padding, dilation=dilation)
    parts = [
        np.einsum("chwyx,ocyx->ohw", view[g * per_group : (g + 1) * per_group], w, optimize=True)
        for g, w in enumerate(np.split(weight, groups))
    ]
    return np.concatenate(parts)


def transposed(x: F64, weight: F64, groups: int, attributes: Mapping[str, Any]) -> F64:
    """By definition: the input with zeros between its pixels, under the kernel the other way round."""
    (sh, sw), (dh, dw) = attributes["stride"], attributes.get("dilation", (1, 1))
    top, left, bottom, right = tuple(attributes["padding"]) * (4 // len(attributes["padding"]))
    more = attributes.get("output_padding", (0, 0))
    reach = (weight.shape[2] - 1) * dh, (weight.shape[3] - 1) * dw
    spread = np.zeros((len(x), (x.shape[1] - 1) * sh + 1, (x.shape[2] - 1) * sw + 1))
    spread[:, ::sh, ::sw] = x
    around = (*reach, reach[0] + more[0], reach[1] + more[1])
    whole = conv(spread, weight[..., ::-1, ::-1], (1, 1), around, groups, (dh, dw))
    return whole[:, top : whole.shape[1] - bottom, left : whole.shape[2] - right]


def sigmoid(x: F64) -> F64:
    return 0.5 * (1 + np.tanh(x / 2))


ACTIVATE: dict[str, Callable[[F64], F64]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
}


def resized_size(x: F64, attributes: Mapping[str, Any]) -> tuple[int, int]:
    """(height, width) of what a resizing operation makes."""
    scale = attributes.get("scale", (1, 1))
    made = attributes.get("size") or (x.shape[1] * scale[0], x.shape[2] * scale[1])
    return int(made[0]), int(made[1])


def bilinear(x: F64, attributes: Mapping[str, Any]) -> F64:
    """Along one axis after the other, by numpy's own interpolation between the centres of pixels."""
    for axis, made in zip((1, 2), resized_size(x, attributes), strict=True):
        size = x.shape[axis]
        at = (np.arange(made) + 0.5) * size / made - 0.5
        if attributes.get("align_corners"):
            at = np.linspace(0, size - 1, made)
        x = np.apply_along_axis(lambda line, at=at, size=size: np.interp(at, np.arange(size), line), axis, x)
    return x


def nearest(x: F64, attributes: Mapping[str, Any]) -> F64:
    """The pixels that torch takes, which counts in float32."""
    for axis, made in zip((1, 2), resized_size(x, attributes), strict=True):
        size = x.shape[axis]
        at = np.arange(made, dtype=np.float32) * np.float32(size / made)
        x = np.take(x, np.minimum(at.astype(int), size - 1), axis)
    return x


def pixel_shuffled(x: F64, factor: int) -> F64:
    channels, height, width = x.shape
    squares = x.reshape(-1, factor, factor, height, width).transpose(0, 3, 1, 4, 2)
    return squares.reshape(channels // factor**2, height * factor, width * factor)


def softmax(x: F64) -> F64:
    exponentials: F64 = np.exp(x - x.max(0))
    return exponentials / exponentials.sum(0)


PORTABLE: dict[str, Callable[..., F64]] = {
    "clip": lambda x, a, w: np.clip(x, a["low"], a["high"]),
    "leaky_relu": lambda x, a, w: np.where(x < 0, a["slope"] * x, x),
    "elu": lambda x, a, w: np.where(x < 0, a["alpha"] * np.expm1(np.minimum(x, 0)), x),
    "prelu": lambda x, a, w: np.where(x < 0, w * x, x),
    "softmax": lambda x, a, w: softmax(x),
    "slice": lambda x, a, w: x[a["start"] : a["stop"]],
    "channel_shuffle": lambda x, a, w: (
        x.reshape(a["groups"], -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    ),
    "resize_nearest": lambda x, a, w: nearest(x, a),
    "resize_bilinear": lambda x, a, w: bilinear(x, a),
    "pixel_shuffle": lambda x, a, w: pixel_shuffled(x, a["factor"]),
    "unflatten": lambda x, a, w: x.reshape(-1, 1, 1),
}
"""Of a value, attributes and slopes."""


def batch_norm(node: Node, x: F64, w: Mapping[str, F64]) -> F64:
    """Of planes or of a flat vector."""
    n, each = node.name, (-1, *[1] * (x.ndim - 1))
    scale = w[f"{n}.weight"] / np.sqrt(w[f"{n}.running_var"] + node.attributes["eps"])
    return (x - w[f"{n}.running_mean"].reshape(each)) * scale.reshape(each) + w[f"{n}.bias"].reshape(each)


def weighted(node: Node, x: F64, w: Mapping[str, F64]) -> F64:
    """A convolution or linear layer."""
    a: Any = node.attributes
    weight, bias = w[f"{node.name}.weight"], w.get(f"{node.name}.bias", np.zeros(1))
    if node.op == "linear":
        return weight @ x + bias
    if node.op == "conv_transpose2d":
        return transposed(x, weight, a["groups"], a) + bias[:, None, None]
    dilation = a.get("dilation", (1, 1))
    return conv(x, weight, a["stride"], a["padding"], a["groups"], dilation) + bias[:, None, None]


def pool(node: Node, x: F64) -> F64:
    a = node.attributes
    fill = -np.inf if node.op == "max_pool" else 0.0
    view = windows(x, a["kernel_size"], a["stride"], a["padding"], fill)
    return view.max(axis=(3, 4)) if node.op == "max_pool" else view.mean(axis=(3, 4))


JOIN: dict[str, Callable[..., F64]] = {
    "input": lambda x: x,
    "output": lambda x: x,
    "global_avg_pool": lambda x: x.mean(axis=(1, 2), keepdims=True),
    "flatten": lambda x: x.reshape(-1),
    "add": np.add,
    "mul": np.multiply,
    "concat": lambda *all_of_them: np.concatenate(all_of_them),
    **ACTIVATE,
}
"""Operations without attributes."""


def values(network: Network, weights: Any, image: NDArray[Any]) -> dict[str, F64]:
    """What every node makes of one image (c, h, w) or (features,)."""
    w = {name: np.asarray(array, np.float64) for name, array in weights.items()}
    found: dict[str, F64] = {}
    for node in network:
        inputs = [found[name] for name in node.inputs] or [np.asarray(image, np.float64)]
        if node.op in ("conv2d", "conv_transpose2d", "linear"):
            found[node.name] = weighted(node, inputs[0], w)
        elif node.op == "batch_norm":
            found[node.name] = batch_norm(node, inputs[0], w)
        elif node.op in ("max_pool", "avg_pool"):
            found[node.name] = pool(node, inputs[0])
        elif node.op in PORTABLE:
            x = inputs[0]
            slopes = w.get(f"{node.name}.weight", np.zeros(0)).reshape(-1, *[1] * (x.ndim - 1))
            found[node.name] = PORTABLE[node.op](x, node.attributes, slopes)
        else:
            found[node.name] = JOIN[node.op](*inputs)
    return found


def run(network: Network, weights: Any, image: NDArray[Any]) -> F64:
    """Flat output of one image (c, h, w) or (features,)."""
    return values(network, weights, image)[network.output.name].reshape(-1)


def largest(network: Network, weights: Any, image: NDArray[Any]) -> float:
    """The largest absolute value of any node."""
    return max(float(np.abs(value).max()) for value in values(network, weights, image).values())
