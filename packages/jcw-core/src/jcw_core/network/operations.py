"""The operations a network is made of: attributes, shape inference, parameters and MACs.

Shapes leave the batch axis out: ``(channels, height, width)`` for planes, ``(features,)`` after
``flatten``. MACs count one multiply-accumulate per weight use, the convention of the papers that
quote them; operations without weights cost none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from jcw_core.errors import NetworkError

Shape = tuple[int, ...]
Attribute = int | float | bool | tuple[int, ...]
Attributes = Mapping[str, Attribute]

ACTIVATIONS = frozenset({"relu", "relu6", "hardswish", "hardsigmoid", "sigmoid", "silu"})
"""Element-wise operations that an engine may fuse into the operation before them."""


def _same(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    return inputs[0]


def _no_parameters(attributes: Attributes, inputs: Sequence[Shape]) -> dict[str, Shape]:
    return {}


def _no_macs(attributes: Attributes, inputs: Sequence[Shape]) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Operation:
    """What the project knows about one kind of node.

    ``attributes`` maps each attribute to its type; ``pair`` stands for two integers (height,
    width). ``arity`` is the number of inputs, or ``None`` for one or more. ``parameters`` gives
    the shape of each trainable parameter, ``buffers`` of each array that training only updates.
    """

    arity: int | None
    attributes: Mapping[str, str] = field(default_factory=dict)
    shape: Callable[[Attributes, Sequence[Shape]], Shape] = _same
    parameters: Callable[[Attributes, Sequence[Shape]], dict[str, Shape]] = _no_parameters
    buffers: Callable[[Attributes, Sequence[Shape]], dict[str, Shape]] = _no_parameters
    macs: Callable[[Attributes, Sequence[Shape]], int] = _no_macs


def pair(attributes: Attributes, name: str) -> tuple[int, int]:
    """Return the attribute ``name`` as (height, width)."""
    value = attributes[name]
    assert isinstance(value, tuple)
    assert len(value) == 2
    return value


def integer(attributes: Attributes, name: str) -> int:
    """Return the attribute ``name`` as an integer."""
    value = attributes[name]
    assert isinstance(value, int)
    return value


def _plane(inputs: Sequence[Shape]) -> tuple[int, int, int]:
    if len(inputs[0]) != 3:
        raise NetworkError(f"needs an input (channels, height, width), found {inputs[0]}")
    channels, height, width = inputs[0]
    return channels, height, width


def _window(attributes: Attributes, height: int, width: int) -> tuple[int, int]:
    kernel, stride, padding = (pair(attributes, key) for key in ("kernel_size", "stride", "padding"))
    out = tuple(
        (size + 2 * p - k) // s + 1
        for size, k, s, p in zip((height, width), kernel, stride, padding, strict=True)
    )
    if min(out) < 1:
        raise NetworkError(f"window {kernel} does not fit a {height} x {width} input padded by {padding}")
    return out[0], out[1]


def _conv_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    channels, height, width = _plane(inputs)
    out, groups = integer(attributes, "out_channels"), integer(attributes, "groups")
    if channels % groups or out % groups:
        raise NetworkError(f"{channels} -> {out} channels do not divide into {groups} groups")
    return (out, *_window(attributes, height, width))


def _conv_parameters(attributes: Attributes, inputs: Sequence[Shape]) -> dict[str, Shape]:
    out = integer(attributes, "out_channels")
    in_per_group = inputs[0][0] // integer(attributes, "groups")
    shapes: dict[str, Shape] = {"weight": (out, in_per_group, *pair(attributes, "kernel_size"))}
    return shapes | ({"bias": (out,)} if attributes["bias"] else {})


def _conv_macs(attributes: Attributes, inputs: Sequence[Shape]) -> int:
    _, height, width = _conv_shape(attributes, inputs)
    return prod(_conv_parameters(attributes, inputs)["weight"]) * height * width


def _linear_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    if len(inputs[0]) != 1:
        raise NetworkError(f"needs a flat input (features,), found {inputs[0]}; flatten first")
    return (integer(attributes, "out_features"),)


def _linear_parameters(attributes: Attributes, inputs: Sequence[Shape]) -> dict[str, Shape]:
    out = integer(attributes, "out_features")
    shapes: dict[str, Shape] = {"weight": (out, inputs[0][0])}
    return shapes | ({"bias": (out,)} if attributes["bias"] else {})


def _linear_macs(attributes: Attributes, inputs: Sequence[Shape]) -> int:
    return prod(_linear_parameters(attributes, inputs)["weight"])


def _norm_parameters(attributes: Attributes, inputs: Sequence[Shape]) -> dict[str, Shape]:
    return {"weight": inputs[0][:1], "bias": inputs[0][:1]}


def _norm_buffers(attributes: Attributes, inputs: Sequence[Shape]) -> dict[str, Shape]:
    return {"running_mean": inputs[0][:1], "running_var": inputs[0][:1]}


def _pool_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    channels, height, width = _plane(inputs)
    kernel, padding = pair(attributes, "kernel_size"), pair(attributes, "padding")
    if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        raise NetworkError(f"padding {padding} is more than half of the window {kernel}")
    return (channels, *_window(attributes, height, width))


def _binary_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    first, second = inputs
    if first != second:
        raise NetworkError(f"inputs differ in shape: {first} and {second}")
    return first


def _mul_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    first, second = inputs
    fitting = (first, (first[0], *[1] * (len(first) - 1)))
    if second not in fitting:
        raise NetworkError(
            f"the second input must be {' or '.join(map(str, dict.fromkeys(fitting)))}, found {second}"
        )
    return first


def _concat_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    if len({shape[1:] for shape in inputs}) != 1:
        raise NetworkError(
            f"concatenates planes of one height and width, or flat inputs, found {list(inputs)}"
        )
    return (sum(shape[0] for shape in inputs), *inputs[0][1:])


_CONV = {
    "out_channels": "int",
    "kernel_size": "pair",
    "stride": "pair",
    "padding": "pair",
    "groups": "int",
    "bias": "bool",
}
_POOL = {"kernel_size": "pair", "stride": "pair", "padding": "pair"}

OPERATIONS: Mapping[str, Operation] = {
    "input": Operation(0, {"shape": "shape"}, lambda a, i: _as_shape(a["shape"])),
    "output": Operation(1),
    "conv2d": Operation(1, _CONV, _conv_shape, _conv_parameters, macs=_conv_macs),
    "linear": Operation(
        1,
        {"out_features": "int", "bias": "bool"},
        _linear_shape,
        _linear_parameters,
        macs=_linear_macs,
    ),
    "batch_norm": Operation(1, {"eps": "float"}, parameters=_norm_parameters, buffers=_norm_buffers),
    "max_pool": Operation(1, _POOL, _pool_shape),
    "avg_pool": Operation(1, _POOL, _pool_shape),
    "global_avg_pool": Operation(1, shape=lambda a, i: (_plane(i)[0], 1, 1)),
    "flatten": Operation(1, shape=lambda a, i: (prod(i[0]),)),
    "add": Operation(2, shape=_binary_shape),
    "mul": Operation(2, shape=_mul_shape),
    "concat": Operation(None, shape=_concat_shape),
    **{name: Operation(1) for name in sorted(ACTIVATIONS)},
}
"""Every operation by name. ``avg_pool`` counts the padding in its mean, as torch does."""


def _as_shape(value: Attribute) -> Shape:
    assert isinstance(value, tuple)
    if len(value) not in (1, 3):
        raise NetworkError(f"shape is {value}, expected (channels, height, width) or (features,)")
    return value
