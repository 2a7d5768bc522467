"""Every operation in float64 and plain numpy: what the engine is judged by."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from jcw_core.network.graph import Network

F64 = NDArray[np.float64]


def windows(x: F64, kernel: Any, stride: Any, padding: Any, fill: float = 0.0) -> F64:
    """(c, h, w) to (c, out_h, out_w, kh, kw); padding is (height, width) or (top, left, bottom, right)."""
    top, left, bottom, right = tuple(padding) * (4 // len(padding))
    pad = ((0, 0), (top, bottom), (left, right))
    padded = np.pad(x, pad, constant_values=fill)
    return sliding_window_view(padded, tuple(kernel), axis=(1, 2))[:, :: stride[0], :: stride[1]]


def conv(x: F64, weight: F64, stride: Any, padding: Any, groups: int) -> F64:
    _, per_group, kh, kw = weight.shape
    view = windows(x, (kh, kw), stride, padding)
    parts = [
        np.einsum("chwyx,ocyx->ohw", view[g * per_group : (g + 1) * per_group], w, optimize=True)
        for g, w in enumerate(np.split(weight, groups))
    ]
    return np.concatenate(parts)


def sigmoid(x: F64) -> F64:
    return 0.5 * (1 + np.tanh(x / 2))


ACTIVATE = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
}


def bilinear(x: F64, factors: Any) -> F64:
    """Along one axis after the other, between the centres of pixels."""
    for axis, factor in zip((1, 2), factors, strict=True):
        size = x.shape[axis]
        at = (np.arange(size * factor) + 0.5) / factor - 0.5
        x = np.apply_along_axis(lambda line, at=at, size=size: np.interp(at, np.arange(size), line), axis, x)
    return x


def pixel_shuffled(x: F64, factor: int) -> F64:
    channels, height, width = x.shape
    squares = x.reshape(-1, factor, factor, height, width).transpose(0, 3, 1, 4, 2)
    return squares.reshape(channels // factor**2, height * factor, width * factor)


def softmax(x: F64) -> F64:
    exponentials: F64 = np.exp(x - x.max(0))
    return exponentials / exponentials.sum(0)


PORTABLE = {
    "clip": lambda x, a, w: np.clip(x, a["low"], a["high"]),
    "leaky_relu": lambda x, a, w: np.where(x < 0, a["slope"] * x, x),
    "elu": lambda x, a, w: np.where(x < 0, a["alpha"] * np.expm1(np.minimum(x, 0)), x),
    "prelu": lambda x, a, w: np.where(x < 0, w * x, x),
    "softmax": lambda x, a, w: softmax(x),
    "slice": lambda x, a, w: x[a["start"] : a["stop"]],
    "channel_shuffle": lambda x, a, w: (
        x.reshape(a["groups"], -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    ),
    "resize_nearest": lambda x, a, w: np.kron(x, np.ones((1, *a["scale"]))),
    "resize_bilinear": lambda x, a, w: bilinear(x, a["scale"]),
    "pixel_shuffle": lambda x, a, w: pixel_shuffled(x, a["factor"]),
    "unflatten": lambda x, a, w: x.reshape(-1, 1, 1),
}
"""Of a value, attributes and slopes."""


def run(network: Network, weights: Any, image: NDArray[Any]) -> F64:
    """Flat output of one image (c, h, w)."""
    w = {name: np.asarray(array, np.float64) for name, array in weights.items()}
    values: dict[str, F64] = {}
    for node in network:
        a, inputs = node.attributes, [values[name] for name in node.inputs]
        x = inputs[0] if inputs else np.asarray(image, np.float64)
        if node.op == "conv2d":
            x = conv(x, w[f"{node.name}.weight"], a["stride"], a["padding"], a["groups"])
            if a["bias"]:
                x = x + w[f"{node.name}.bias"][:, None, None]
        elif node.op == "linear":
            x = w[f"{node.name}.weight"] @ x + (w[f"{node.name}.bias"] if a["bias"] else 0)
        elif node.op == "batch_norm":
            n = node.name
            scale = w[f"{n}.weight"] / np.sqrt(w[f"{n}.running_var"] + a["eps"])
            x = (x - w[f"{n}.running_mean"][:, None, None]) * scale[:, None, None] + w[f"{n}.bias"][
                :, None, None
            ]
        elif node.op == "max_pool":
            x = windows(x, a["kernel_size"], a["stride"], a["padding"], -np.inf).max(axis=(3, 4))
        elif node.op == "avg_pool":
            x = windows(x, a["kernel_size"], a["stride"], a["padding"]).mean(axis=(3, 4))
        elif node.op == "global_avg_pool":
            x = x.mean(axis=(1, 2), keepdims=True)
        elif node.op == "flatten":
            x = x.reshape(-1)
        elif node.op == "add":
            x = inputs[0] + inputs[1]
        elif node.op == "mul":
            x = inputs[0] * inputs[1]
        elif node.op == "concat":
            x = np.concatenate(inputs)
        elif node.op in ACTIVATE:
            x = ACTIVATE[node.op](x)
        elif node.op in PORTABLE:
            slopes = w.get(f"{node.name}.weight", np.zeros(0)).reshape(-1, *[1] * (x.ndim - 1))
            x = PORTABLE[node.op](x, a, slopes)
        values[node.name] = x
    return values[network.output.name].reshape(-1)
