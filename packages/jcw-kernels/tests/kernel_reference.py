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
        values[node.name] = x
    return values[network.output.name].reshape(-1)
