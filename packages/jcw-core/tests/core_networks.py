"""Random networks for property tests, and a float64 reference that runs any network in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network, Node

Array = NDArray[np.float64]

ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def _resized_size(x: Array, attributes: Mapping[str, Any]) -> tuple[int, int]:
    """(height, width) of what a resizing operation makes."""
    scale = attributes.get("scale", (1, 1))
    made = attributes.get("size") or (x.shape[1] * scale[0], x.shape[2] * scale[1])
    return int(made[0]), int(made[1])


def _bilinear(x: Array, attributes: Mapping[str, Any]) -> Array:
    """Along one axis after the other, by numpy's own interpolation between the centres of pixels."""
    for axis, made in zip((1, 2), _resized_size(x, attributes), strict=True):
        size = x.shape[axis]
        at = (np.arange(made) + 0.5) * size / made - 0.5
        if attributes.get("align_corners"):
            at = np.linspace(0, size - 1, made)
        x = np.apply_along_axis(lambda line, at=at, size=size: np.interp(at, np.arange(size), line), axis, x)
    return x


def _nearest(x: Array, attributes: Mapping[str, Any]) -> Array:
    """The pixels that torch takes, which counts in float32."""
    for axis, made in zip((1, 2), _resized_size(x, attributes), strict=True):
        size = x.shape[axis]
        at = np.arange(made, dtype=np.float32) * np.float32(size / made)
        x = np.take(x, np.minimum(at.astype(int), size - 1), axis)
    return x


def _pixel_shuffled(x: Array, factor: int) -> Array:
    channels, height, width = x.shape
    squares = x.reshape(-1, factor, factor, height, width).transpose(0, 3, 1, 4, 2)
    return squares.reshape(channels // factor**2, height * factor, width * factor)


def _softmax(x: Array) -> Array:
    exponentials = np.exp(x - x.max(0))
    return exponentials / exponentials.sum(0)


PORTABLE: Mapping[str, Callable[..., Array]] = {
    "clip": lambda x, a, w: np.clip(x, a["low"], a["high"]),
    "leaky_relu": lambda x, a, w: np.where(x < 0, a["slope"] * x, x),
    "elu": lambda x, a, w: np.where(x < 0, a["alpha"] * (np.exp(np.minimum(x, 0)) - 1), x),
    "prelu": lambda x, a, w: np.where(x < 0, w * x, x),
    "softmax": lambda x, a, w: _softmax(x),
    "slice": lambda x, a, w: x[a["start"] : a["stop"]],
    "channel_shuffle": lambda x, a, w: (
        x.reshape(a["groups"], -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    ),
    "resize_nearest": lambda x, a, w: _nearest(x, a),
    "resize_bilinear": lambda x, a, w: _bilinear(x, a),
    "pixel_shuffle": lambda x, a, w: _pixel_shuffled(x, a["factor"]),
    "unflatten": lambda x, a, w: x.reshape(-1, 1, 1),
}
"""Of a value, attributes and slopes."""


def portable_attributes(op: str, channels: int, rng: np.random.Generator) -> dict[str, object]:
    """Random attributes of one of these operations on so many channels."""
    start = int(rng.integers(channels))
    divisors = [n for n in range(1, channels + 1) if channels % n == 0]
    size = "size" if rng.integers(2) else "scale"
    found: dict[str, dict[str, object]] = {
        "clip": {"low": float(rng.uniform(-1, 0)), "high": float(rng.uniform(0, 1))},
        "leaky_relu": {"slope": float(rng.uniform(-0.5, 1))},
        "elu": {"alpha": float(rng.uniform(0.1, 2))},
        "slice": {"start": start, "stop": int(rng.integers(start, channels)) + 1},
        "channel_shuffle": {"groups": int(rng.choice(divisors))},
        "pixel_shuffle": {"factor": int(rng.choice([n for n in (1, 2, 3) if channels % n**2 == 0]))},
        "resize_nearest": {size: tuple(map(int, rng.integers(1, 4 if size == "scale" else 14, 2)))},
        "resize_bilinear": {
            size: tuple(map(int, rng.integers(1, 4 if size == "scale" else 14, 2))),
            "align_corners": bool(rng.integers(2)),
        },
    }
    return found.get(op, {})


def small_resnet(width: int = 8, classes: int = 3) -> Network:
    """Residual block, squeeze-excite, depthwise, concat, flatten: every coupling, and a unit of two, in one network."""
    net = NetworkBuilder("small", (3, 8, 8))
    stem = net.conv("stem", width, 3)
    net.batch_norm("stem_bn")
    start = net.add("stem_relu", "relu")
    net.conv("block.conv1", 2 * width, 1)
    net.add("block.relu1", "relu")
    net.conv("block.conv2", width, 3)
    net.add("block.add", "add", net.batch_norm("block.bn2"), start)
    block = net.add("block.relu2", "relu")
    net.add("se.pool", "global_avg_pool")
    net.conv("se.reduce", 4, 1, bias=True)
    net.add("se.relu", "relu")
    net.conv("se.expand", width, 1, bias=True)
    net.add("se.gate", "hardsigmoid")
    scaled = net.add("se.scale", "mul", block, "se.gate")
    net.conv("branch", 12, 1, source=scaled)
    net.add("branch_relu", "relu")
    net.depthwise("branch_dw", 3)
    net.add("join", "concat", scaled, net.batch_norm("branch_bn"))
    net.depthwise("dw", 3, 2)
    net.batch_norm("dw_bn")
    net.add("flatten", "flatten")
    net.linear("fc", classes)
    assert stem == "stem"
    return net.build()


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """A network of a few random operations of every kind, its output a random node of them."""
    shape = tuple(draw(st.integers(low, high)) for low, high in ((1, 6), (3, 7), (3, 7)))
    net = NetworkBuilder("random", shape)
    shapes = {"input": shape}
    for index in range(draw(st.integers(1, 9))):
        name = f"n{index}"
        source = draw(st.sampled_from(list(shapes)[-4:]))
        _append(draw, net, name, source, shapes)
        shapes[name] = net._shapes[name]
    return net.build()


def _append(
    draw: st.DrawFn, net: NetworkBuilder, name: str, source: str, shapes: dict[str, tuple[int, ...]]
) -> None:
    shape = shapes[source]
    same = [other for other, found in shapes.items() if found == shape]
    if len(shape) == 1 and draw(st.integers(0, 5)) == 0:
        net.add(name, "unflatten", source)
        return
    if len(shape) == 1:
        _append_flat(draw, net, name, source, shapes)
        return
    channels, height, width = shape
    gates = [other for other, found in shapes.items() if found == (channels, 1, 1)]
    planes = [other for other, found in shapes.items() if found[1:] == shape[1:]]
    kind = draw(
        st.sampled_from(
            [
                "conv",
                "conv",
                "depthwise",
                "pair",
                "grouped",
                "dilated",
                "transposed",
                "batch_norm",
                "pool",
                "global",
                "flatten",
                "add",
                "mul",
                "concat",
                "act",
                "portable",
            ]
        )
    )
    kernel = draw(st.integers(1, min(3, height, width)))
    stride, padding = draw(st.integers(1, 2)), draw(st.integers(0, kernel // 2))
    if kind == "conv":
        net.conv(
            name,
            draw(st.integers(1, 13)),
            kernel,
            stride,
            source=source,
            padding=padding,
            bias=draw(st.booleans()),
        )
    elif kind == "pair":
        width = draw(st.integers(1, 9))
        net.conv(f"{name}.point", width, 1, source=source)
        net.conv(name, width, kernel, stride, padding=padding, groups=width)
    elif kind == "depthwise":
        net.conv(name, channels, kernel, stride, source=source, padding=padding, groups=channels)
    elif kind == "grouped":
        groups = draw(st.sampled_from([g for g in range(1, channels + 1) if channels % g == 0]))
        net.conv(
            name,
            groups * draw(st.integers(1, 3)),
            kernel,
            stride,
            source=source,
            padding=padding,
            groups=groups,
        )
    elif kind == "dilated":
        groups = draw(st.sampled_from([1, channels]))
        steps = [draw(st.integers(1, 3)) for _ in range(2)]
        # As much padding as keeps the size, so that every window fits.
        net.add(
            name, "conv2d", source, out_channels=groups * draw(st.integers(1, 5)), kernel_size=(kernel, kernel),
            stride=(stride, stride), padding=tuple((kernel - 1) * step for step in steps), groups=groups,
            bias=draw(st.booleans()), dilation=tuple(steps),
        )  # fmt: skip
    elif kind == "transposed" and height * width <= 150:
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        net.add(name, "conv_transpose2d", source, **transposed_attributes(channels, rng))  # type: ignore[arg-type]
    elif kind in ("batch_norm", "transposed"):
        net.batch_norm(name, source=source)
    elif kind == "pool":
        net.pool(
            name, draw(st.sampled_from(["max_pool", "avg_pool"])), kernel, stride, padding, source=source
        )
    elif kind == "global":
        net.add(name, "global_avg_pool", source)
    elif kind == "flatten":
        net.add(name, "flatten", source)
    elif kind == "add":
        net.add(name, "add", source, draw(st.sampled_from(same)))
    elif kind == "mul":
        net.add(name, "mul", source, draw(st.sampled_from(same + gates)))
    elif kind == "concat":
        net.add(name, "concat", *draw(st.lists(st.sampled_from(planes), min_size=1, max_size=3)))
    elif kind == "portable":
        op = draw(st.sampled_from(sorted(PORTABLE.keys() - {"unflatten"})))
        op = "clip" if op.startswith(("resize", "pixel")) and height * width > 150 else op
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        net.add(name, op, source, **portable_attributes(op, channels, rng))  # type: ignore[arg-type]
    else:
        net.add(name, draw(st.sampled_from(sorted(ACTIVATIONS))), source)


FLAT = ("linear", "linear", "batch_norm", "add", "mul", "concat", "flatten", "act", "portable")
"""Operations that take flat vectors."""


def _append_flat(
    draw: st.DrawFn, net: NetworkBuilder, name: str, source: str, shapes: dict[str, tuple[int, ...]]
) -> None:
    same = [other for other, found in shapes.items() if found == shapes[source]]
    flat = [other for other, found in shapes.items() if len(found) == 1]
    kind = draw(st.sampled_from(FLAT))
    if kind == "linear":
        # Few widths, so that there is something to add.
        net.linear(name, draw(st.sampled_from([1, 5, 9])), source=source, bias=draw(st.booleans()))
    elif kind == "batch_norm":
        net.batch_norm(name, source=source)
    elif kind in ("add", "mul"):
        net.add(name, kind, source, draw(st.sampled_from(same)))
    elif kind == "concat":
        net.add(name, kind, *draw(st.lists(st.sampled_from(flat), min_size=1, max_size=3)))
    elif kind == "portable":
        op = draw(st.sampled_from(["clip", "leaky_relu", "elu", "prelu", "softmax", "slice"]))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        net.add(name, op, source, **portable_attributes(op, shapes[source][0], rng))  # type: ignore[arg-type]
    else:
        net.add(name, kind if kind == "flatten" else draw(st.sampled_from(sorted(ACTIVATIONS))), source)


@st.composite
def flat_tails(draw: st.DrawFn) -> Network:
    """A network that soon is flat, with operations of every kind that flat vectors take after that."""
    net = NetworkBuilder("flat", (2, 3, 3))
    net.conv("conv", draw(st.integers(1, 9)), 3)
    if draw(st.booleans()):
        net.add("pool", "global_avg_pool")
    net.add("flat", "flatten")
    shapes = {"flat": net.shape("flat")}
    for index in range(draw(st.integers(1, 8))):
        name, source = f"n{index}", draw(st.sampled_from(list(shapes)[-4:]))
        _append_flat(draw, net, name, source, shapes)
        shapes[name] = net.shape(name)
    return net.build()


def random_weights(network: Network, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Values of every parameter and statistic; variances are positive."""
    shapes = {**network.parameter_shapes, **network.buffer_shapes}
    return {
        name: (
            rng.uniform(0.5, 2, shape) if name.endswith("running_var") else rng.normal(0, 0.5, shape)
        ).astype("f4")
        for name, shape in shapes.items()
    }


def run(
    network: Network,
    weights: Mapping[str, NDArray[np.float32]],
    image: Array,
    masks: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Run one image through a network in float64.

    Args:
        network: any network.
        weights: by state-dict name.
        image: (channels, height, width).
        masks: a factor for the first axis of some nodes' outputs.

    Returns:
        the output of every node.
    """
    values: dict[str, Array] = {}
    for node in network:
        inputs = [values[name] for name in node.inputs]
        value = image.astype(np.float64) if node.op == "input" else _apply(node, inputs, weights)
        mask = (masks or {}).get(node.name)
        values[node.name] = value if mask is None else value * mask.reshape(-1, *[1] * (value.ndim - 1))
    return values


def _apply(node: Node, inputs: list[Array], weights: Mapping[str, NDArray[np.float32]]) -> Array:
    x = inputs[0]
    own = {
        key: weights[f"{node.name}.{key}"].astype(np.float64)
        for key in _KEYS
        if f"{node.name}.{key}" in weights
    }
    if node.op == "conv2d":
        return _conv(node, x, own)
    if node.op == "conv_transpose2d":
        return _transposed(node, x, own)
    if node.op == "linear":
        return own["weight"] @ x + own.get("bias", 0)
    if node.op == "batch_norm":
        mean, var, weight, bias = (
            own[key].reshape(-1, *[1] * (x.ndim - 1))
            for key in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / np.sqrt(var + node.attributes["eps"]) * weight + bias
    if node.op in ("max_pool", "avg_pool"):
        fill = -np.inf if node.op == "max_pool" else 0.0
        windows = _windows(node, x, fill)
        return windows.max((-2, -1)) if node.op == "max_pool" else windows.mean((-2, -1))
    if node.op in ACTIVATIONS:
        return ACTIVATIONS[node.op](x)
    if node.op in PORTABLE:
        slopes = own["weight"].reshape(-1, *[1] * (x.ndim - 1)) if node.op == "prelu" else None
        return PORTABLE[node.op](x, node.attributes, slopes)
    simple: dict[str, Callable[[], Array]] = {
        "add": lambda: x + inputs[1],
        "mul": lambda: x * inputs[1],
        "concat": lambda: np.concatenate(inputs),
        "global_avg_pool": lambda: x.mean((1, 2), keepdims=True),
        "flatten": lambda: x.reshape(-1),
        "output": lambda: x,
    }
    return simple[node.op]()


_KEYS = ("weight", "bias", "running_mean", "running_var")


def _windows(node: Node, x: Array, fill: float) -> Array:
    """(channels, out height, out width, kernel height, kernel width)."""
    padding, (sh, sw) = node.attributes["padding"], node.attributes["stride"]
    top, left, bottom, right = padding if len(padding) == 4 else (*padding, *padding)
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right)), constant_values=fill)
    dh, dw = node.attributes.get("dilation", (1, 1))
    reach = [(k - 1) * d + 1 for k, d in zip(node.attributes["kernel_size"], (dh, dw), strict=True)]
    return sliding_window_view(padded, reach, (1, 2))[:, ::sh, ::sw, ::dh, ::dw]


def _conv(node: Node, x: Array, own: Mapping[str, Array]) -> Array:
    groups = node.attributes["groups"]
    windows = np.split(_windows(node, x, 0.0), groups)
    kernels = np.split(own["weight"], groups)
    out = np.concatenate([np.einsum("ihwab,oiab->ohw", w, k) for w, k in zip(windows, kernels, strict=True)])
    return out + own["bias"][:, None, None] if "bias" in own else out


def _transposed(node: Node, x: Array, own: Mapping[str, Array]) -> Array:
    """Each pixel adds its value times the kernel to what it makes, from which the padding is cut off."""
    a, groups = node.attributes, node.attributes["groups"]
    (sh, sw), (dh, dw), (kh, kw) = a["stride"], a.get("dilation", (1, 1)), a["kernel_size"]
    more, padding = a.get("output_padding", (0, 0)), a["padding"]
    top, left, bottom, right = padding if len(padding) == 4 else (*padding, *padding)
    height, width = (x.shape[1] - 1) * sh + (kh - 1) * dh + 1, (x.shape[2] - 1) * sw + (kw - 1) * dw + 1
    # Of four, a padding is negative where the rows that are added are more than it cuts off.
    whole = np.zeros((len(own["weight"]), height + more[0], width + more[1]))
    parts = zip(np.split(x, groups), np.split(own["weight"], groups), np.split(whole, groups), strict=True)
    for values, kernels, out in parts:
        for y, z in np.ndindex(x.shape[1:]):
            rows, columns = (
                slice(y * sh, y * sh + (kh - 1) * dh + 1, dh),
                slice(z * sw, z * sw + (kw - 1) * dw + 1, dw),
            )
            out[:, rows, columns] += np.einsum("i,oiab->oab", values[:, y, z], kernels)
    made = whole[:, top : whole.shape[1] - bottom, left : whole.shape[2] - right]
    return made + own["bias"][:, None, None] if "bias" in own else made


def transposed_attributes(channels: int, rng: np.random.Generator) -> dict[str, object]:
    """Random attributes of a transposed convolution of so many channels, small enough for any plane of 2 x 2."""
    kernel, stride = rng.integers(1, 5, 2), rng.integers(1, 4, 2)
    dilation = rng.integers(1, 3, 2)
    groups = int(rng.choice([n for n in range(1, channels + 1) if channels % n == 0]))
    reach = (kernel - 1) * dilation + 1
    padding = (
        rng.integers(0, np.tile((reach + 1) // 2, 2))
        if rng.random() < 0.3
        else rng.integers(0, (reach + 1) // 2)
    )
    return {
        "out_channels": groups * int(rng.integers(1, 4)),
        "groups": groups,
        "bias": bool(rng.integers(2)),
        "kernel_size": tuple(kernel.tolist()),
        "stride": tuple(stride.tolist()),
        "padding": tuple(padding.tolist()),
        "dilation": tuple(dilation.tolist()),
        "output_padding": tuple(rng.integers(0, np.maximum(stride, dilation)).tolist()),
    }


def image_of(network: Network, rng: np.random.Generator) -> Array:
    """A random image in the network's input shape."""
    return rng.normal(size=network.input_shape)
