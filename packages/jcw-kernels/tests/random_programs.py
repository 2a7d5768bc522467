"""Random programs, as the header of a model file may hold them, and what they compute in float64."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import kernel_reference as reference
import numpy as np
from kernel_reference import F64
from numpy.typing import NDArray
from safetensors.numpy import save

from jcw_core.network.weight_groups import density_mask

CHANNELS = [1, 1, 2, 3, 4, 5, 8, 9, 16, 17, 33]
SIZES = [1, 1, 2, 3, 5, 7, 8, 9, 14, 16, 17, 31, 33]


class Draft:
    """Units so far, the weights of those that have some, and the value of each tensor; tensor 0 is the image."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.units: list[dict[str, Any]] = []
        self.weights: dict[str, NDArray[np.float32]] = {"unused": np.zeros(1, np.float32)}
        shape = (self.pick(CHANNELS), self.pick(SIZES), self.pick(SIZES))
        self.image = rng.standard_normal((1, *shape), dtype=np.float32)
        self.values: list[F64] = [self.image[0].astype(np.float64)]

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.rng.integers(len(options))]

    def source(self) -> int:
        """One of the last tensors."""
        return int(self.rng.integers(max(0, len(self.values) - 3), len(self.values)))

    def like(self, *shape: int) -> list[int]:
        """The tensors of a shape."""
        return [i for i, value in enumerate(self.values) if value.shape == shape]

    def append(
        self, op: str, inputs: list[int], value: F64, activation: bool = True, **attributes: Any
    ) -> None:
        planes = value[0].size > 1 or op in ("conv2d", "linear")
        if activation and planes and self.rng.random() < 0.15:
            slopes = self.rng.normal(0, 0.5, len(value)).astype(np.float32)
            attributes["activation"] = "prelu"
            self.weights[f"u{len(self.units)}.slopes"] = slopes
            value = reference.PORTABLE["prelu"](value, {}, slopes.reshape(-1, 1, 1))
        elif activation and self.rng.random() < 0.6:
            attributes["activation"] = self.pick(sorted(reference.ACTIVATE))
            value = reference.ACTIVATE[attributes["activation"]](value)
        self.units.append({"name": f"u{len(self.units)}", "op": op, "inputs": inputs, **attributes})
        self.values.append(value)

    def weighted(
        self, op: str, source: int, weight: F64, compute: Any, fuses: bool = True, **attributes: Any
    ) -> None:
        """Append a convolution or linear layer: ``compute`` makes its value without bias from pruned weights."""
        pruned = weight * density_mask(weight, self.pick([1.0, 1.0, 0.5, 0.1, 0.0])) / np.sqrt(weight[0].size)
        arrays = {"weight": pruned, "bias": self.rng.standard_normal(len(weight))}
        stored = self.pick([np.float32, np.float16])
        own = {f"u{len(self.units)}.{key}": array.astype(stored) for key, array in arrays.items()}
        self.weights |= own
        exact, bias = (array.astype(np.float64) for array in own.values())
        value = compute(exact) + bias[:, None, None]
        same = self.like(*value.shape)
        if fuses and same and self.rng.random() < 0.5:
            attributes["residual"] = self.pick(same)
            value = value + self.values[attributes["residual"]]
        self.append(op, [source], value, activation=fuses, out_channels=len(weight), **attributes)

    def convolve(self, source: int, out: int, groups: int, window: dict[str, list[int]]) -> None:
        x = self.values[source]
        weight = self.rng.standard_normal((out, len(x) // groups, *window["kernel_size"]))
        self.weighted(
            "conv2d",
            source,
            weight,
            lambda w: reference.conv(
                x, w, window["stride"], window["padding"], groups, window.get("dilation", (1, 1))
            ),
            groups=groups,
            **window,
        )

    def window(self, source: int) -> dict[str, list[int]]:
        kernel = self.rng.integers(1, 6, 2)
        padding = self.rng.integers(0, kernel // 2 + 1)
        if self.rng.random() < 0.4:
            kernel = np.minimum(kernel, self.values[source].shape[1:])
            # Of each side; even ones are drawn otherwise.
            padding = self.rng.integers(0, np.tile(kernel, 2))
            padding[:2] *= not np.array_equal(padding[:2], padding[2:]) or (2 * padding[:2] <= kernel).all()
        else:
            kernel = np.minimum(kernel, np.array(self.values[source].shape[1:]) + 2 * padding)
        window = {"kernel_size": kernel, "stride": self.rng.integers(1, 4, 2), "padding": padding}
        return {key: sizes.tolist() for key, sizes in window.items()}

    def file(self) -> bytes:
        """A model file whose output is the last tensor."""
        shape = list(self.values[0].shape)
        return model_file({"input": shape, "units": self.units, "output": len(self.units)}, self.weights)


def model_file(program: dict[str, Any], weights: dict[str, NDArray[Any]]) -> bytes:
    return save(weights, {"format": "jcw-model/1", "program": json.dumps(program)})


def conv2d(d: Draft) -> None:
    source = d.source()
    channels = len(d.values[source])
    groups = d.pick([1, channels, *(g for g in range(1, channels + 1) if channels % g == 0)])
    out = d.pick(CHANNELS) if groups == 1 else groups * d.pick([1, 1, 2, 3])
    window = d.window(source)
    if d.rng.random() < 0.3:
        dilation = d.rng.integers(1, 5, 2).tolist()
        reach = [(k - 1) * n + 1 for k, n in zip(window["kernel_size"], dilation, strict=True)]
        padding = [
            max(d.rng.integers(0, n + 1), n - size)
            for n, size in zip(reach, d.values[source].shape[1:], strict=True)
        ]
        window |= {"dilation": dilation, "padding": list(map(int, padding))}
    d.convolve(source, out, groups, window)


def transposed(d: Draft) -> None:
    source = d.source()
    x = d.values[source]
    if x[0].size > 300:
        return activation(d)
    groups = d.pick([g for g in range(1, len(x) + 1) if len(x) % g == 0])
    kernel, stride, dilation = (d.rng.integers(1, high, 2) for high in (5, 4, 3))
    reach = (kernel - 1) * dilation + 1
    sides = {
        "kernel_size": kernel,
        "stride": stride,
        "padding": d.rng.integers(0, np.tile((reach + 1) // 2, d.pick([1, 2]))),
        "dilation": dilation,
        "output_padding": d.rng.integers(0, np.maximum(stride, dilation)),
    }
    attributes = {key: sizes.tolist() for key, sizes in sides.items()}
    weight = d.rng.standard_normal((groups * d.pick([1, 2, 3]), len(x) // groups, *kernel))
    d.weighted(
        "conv_transpose2d", source, weight, lambda w: reference.transposed(x, w, groups, attributes), False,
        groups=groups, **attributes,
    )  # fmt: skip


def pair(d: Draft) -> None:
    """A 1 x 1 convolution and the depthwise one of stride 2 that reads its output."""
    width, size = d.pick(CHANNELS), d.pick([3, 5])
    d.convolve(d.source(), width, 1, {"kernel_size": [1, 1], "stride": [1, 1], "padding": [0, 0]})
    window = {"kernel_size": [size] * 2, "stride": [2, 2], "padding": [size // 2] * 2}
    d.convolve(len(d.units), width, width, window)


def linear(d: Draft) -> None:
    flatten(d)
    x = d.values[-1]
    weight = d.rng.standard_normal((d.pick(CHANNELS), len(x)))
    d.weighted("linear", len(d.units), weight, lambda w: np.tensordot(w, x, 1))


def pool(d: Draft) -> None:
    source, op = d.source(), d.pick(["max_pool", "avg_pool"])
    window = d.window(source)
    view = reference.windows(d.values[source], *window.values(), fill=-np.inf if op == "max_pool" else 0.0)
    d.append(op, [source], view.max(axis=(3, 4)) if op == "max_pool" else view.mean(axis=(3, 4)), **window)


def mean(d: Draft) -> None:
    source = d.source()
    d.append("global_avg_pool", [source], d.values[source].mean(axis=(1, 2), keepdims=True), activation=False)


def flatten(d: Draft) -> None:
    source = d.source()
    d.append("flatten", [source], d.values[source].reshape(-1, 1, 1), activation=False)


def concat(d: Draft) -> None:
    first = d.source()
    planes = [i for i, value in enumerate(d.values) if value.shape[1:] == d.values[first].shape[1:]]
    inputs = [first, *(d.pick(planes) for _ in range(d.pick([0, 1, 2])))]
    d.append("concat", inputs, np.concatenate([d.values[i] for i in inputs]), activation=False)


def binary(d: Draft) -> None:
    first, op = d.source(), d.pick(["add", "mul"])
    x = d.values[first]
    second = d.pick(d.like(*x.shape) + (d.like(len(x), 1, 1) if op == "mul" else []))
    y = d.values[second]
    d.append(op, [first, second], x + y if op == "add" else x * y)


def activation(d: Draft) -> None:
    source = d.source()
    d.append("activation", [source], d.values[source])


def portable(d: Draft) -> None:
    """What the engine computes by plain loops."""
    source = d.source()
    x = d.values[source]
    op = d.pick([op for op in reference.PORTABLE if op != "unflatten"])
    if op.startswith(("resize", "pixel")) and x[0].size > 300:
        return activation(d)
    attributes = portable_attributes(op, len(x), d.rng)
    if op == "prelu":
        d.weights[f"u{len(d.units)}.weight"] = d.rng.standard_normal(len(x)).astype(np.float32)
    slopes = d.weights.get(f"u{len(d.units)}.weight", np.zeros(0)).astype(np.float64).reshape(-1, 1, 1)
    value = reference.PORTABLE[op](x, attributes, slopes)
    if op == "slice":
        attributes = {"start": attributes["start"], "out_channels": len(value)}
    return d.append(op, [source], value, activation=False, **attributes)


def portable_attributes(op: str, channels: int, rng: np.random.Generator) -> dict[str, Any]:
    start = int(rng.integers(channels))
    divisors = [n for n in range(1, channels + 1) if channels % n == 0]
    scale = [int(n) for n in rng.integers(1, 4, 2)]
    by = {"scale": scale} if rng.integers(2) else {"size": [int(n) for n in rng.integers(1, 14, 2)]}
    found: dict[str, dict[str, Any]] = {
        "clip": {"low": float(rng.uniform(-1, 0)), "high": float(rng.uniform(0, 1))},
        "leaky_relu": {"slope": float(rng.uniform(-0.5, 1))},
        "elu": {"alpha": float(rng.uniform(0.1, 2))},
        "slice": {"start": start, "stop": int(rng.integers(start, channels)) + 1},
        "channel_shuffle": {"groups": int(rng.choice(divisors))},
        "pixel_shuffle": {"factor": int(rng.choice([n for n in (1, 2, 3) if channels % n**2 == 0]))},
        "resize_nearest": by,
        "resize_bilinear": by | {"align_corners": bool(rng.integers(2))},
    }
    return found.get(op, {})


KINDS = [
    portable,
    portable,
    conv2d,
    conv2d,
    transposed,
    pair,
    linear,
    pool,
    mean,
    flatten,
    concat,
    binary,
    activation,
]


def random_program(rng: np.random.Generator) -> Draft:
    """Up to six units of any kinds."""
    draft = Draft(rng)
    for _ in range(rng.integers(1, 6)):
        draft.pick(KINDS)(draft)
    return draft
