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
from jcw_core.shown import count_of

Shape = tuple[int, ...]
Attribute = int | float | bool | str | tuple[int, ...]
Attributes = Mapping[str, Attribute]

CONVOLUTIONS = frozenset({"conv2d", "conv_transpose2d"})
"""Layers that have weights and groups."""

LAYERS = CONVOLUTIONS | {"linear"}
"""Operations whose weights make each output of all inputs of its group: what has widths."""

ACTIVATIONS = frozenset({"relu", "relu6", "hardswish", "hardsigmoid", "sigmoid", "silu"})
"""Element-wise operations that an engine may fuse into the operation before them."""

SLOPES = frozenset({"leaky_relu", "prelu"})
"""Those with a slope below 0, which an engine may fuse as well."""


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
    width), ``amounts`` for two that may be 0, ``padding`` for two or, where sides differ, four (top, left, bottom, right). ``arity`` is the number of inputs, or ``None`` for one or more. ``parameters`` gives
    the shape of each trainable parameter, ``buffers`` of each array that training only updates.
    ``defaults`` holds the value of attributes that may be left out; nodes never hold them at it, so
    that files look as they did before such an attribute was added.
    """

    arity: int | None
    attributes: Mapping[str, str] = field(default_factory=dict)
    shape: Callable[[Attributes, Sequence[Shape]], Shape] = _same
    parameters: Callable[[Attributes, Sequence[Shape]], dict[str, Shape]] = _no_parameters
    buffers: Callable[[Attributes, Sequence[Shape]], dict[str, Shape]] = _no_parameters
    macs: Callable[[Attributes, Sequence[Shape]], int] = _no_macs
    defaults: Mapping[str, Attribute] = field(default_factory=dict)

    def __repr__(self) -> str:
        inputs = "any number of inputs" if self.arity is None else count_of(self.arity, "input")
        return f"<Operation of {inputs}: {', '.join(self.attributes) or 'no attributes'}>"


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


def sides(attributes: Attributes) -> tuple[int, int, int, int]:
    """Return the padding as (top, left, bottom, right); a pair pads both ends of an axis alike."""
    return sides_of(attributes["padding"])


def sides_of(padding: Attribute) -> tuple[int, int, int, int]:
    """A padding (height, width) or (top, left, bottom, right) as the latter."""
    assert isinstance(padding, tuple)
    assert len(padding) in (2, 4)
    top, left, bottom, right = padding * (4 // len(padding))
    return top, left, bottom, right


def dilation_of(attributes: Attributes) -> tuple[int, int]:
    """Steps between two taps of a window, (height, width); (1, 1) where nothing is said."""
    return pair(attributes, "dilation") if "dilation" in attributes else (1, 1)


def span(kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int]:
    """Pixels from the first to the last tap of a window, both counted, (height, width)."""
    return (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1


def _plane(inputs: Sequence[Shape]) -> tuple[int, int, int]:
    if len(inputs[0]) != 3:
        raise NetworkError(f"needs an input (channels, height, width), found {inputs[0]}")
    channels, height, width = inputs[0]
    return channels, height, width


def _window(attributes: Attributes, height: int, width: int) -> tuple[int, int]:
    kernel = span(pair(attributes, "kernel_size"), dilation_of(attributes))
    stride, padding = pair(attributes, "stride"), sides(attributes)
    out = tuple(
        (size + before + after - k) // s + 1
        for size, k, s, before, after in zip(
            (height, width), kernel, stride, padding[:2], padding[2:], strict=True
        )
    )
    if min(out) < 1:
        raise NetworkError(
            f"window {kernel} does not fit a {height} x {width} input padded by {attributes['padding']}"
        )
    return out[0], out[1]


def _conv_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    _, height, width = _plane(inputs)
    return (_grouped(attributes, inputs), *_window(attributes, height, width))


def _grouped(attributes: Attributes, inputs: Sequence[Shape]) -> int:
    channels, out, groups = inputs[0][0], integer(attributes, "out_channels"), integer(attributes, "groups")
    if channels % groups or out % groups:
        raise NetworkError(f"{channels} -> {out} channels do not divide into {groups} groups")
    return out


def transposed_size(
    size: Sequence[int],
    kernel: tuple[int, int],
    stride: Sequence[int],
    padding: Sequence[int],
    more: Sequence[int],
) -> tuple[int, int]:
    """(height, width) that a transposed convolution makes of a plane of ``size``.

    Args:
        size, stride: (height, width).
        kernel: pixels that the window spans.
        padding: (top, left, bottom, right), cut off what it makes.
        more: rows and columns that are added at the bottom and on the right.
    """
    height, width = (
        (n - 1) * s + k - before - after + m
        for n, s, k, before, after, m in zip(
            size, stride, kernel, padding[:2], padding[2:], more, strict=True
        )
    )
    return height, width


def _transposed_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    _, *size = _plane(inputs)
    stride, steps = pair(attributes, "stride"), dilation_of(attributes)
    more = pair(attributes, "output_padding") if "output_padding" in attributes else (0, 0)
    kernel = span(pair(attributes, "kernel_size"), steps)
    if any(m >= max(s, d) for m, s, d in zip(more, stride, steps, strict=True)):
        raise NetworkError(
            f"output_padding {more} is not less than the stride {stride} or the dilation {steps}"
        )
    made = transposed_size(size, kernel, stride, sides(attributes), more)
    if min(made) < 1:
        raise NetworkError(f"padding {attributes['padding']} leaves nothing of what it makes")
    return (_grouped(attributes, inputs), *made)


def _transposed_macs(attributes: Attributes, inputs: Sequence[Shape]) -> int:
    """Every tap of every input pixel; those that fall into the padding are counted, too."""
    return prod(_conv_parameters(attributes, inputs)["weight"]) * prod(inputs[0][1:])


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
    kernel, padding = pair(attributes, "kernel_size"), attributes["padding"]
    assert isinstance(padding, tuple)
    if problem := too_wide(padding, kernel):
        raise NetworkError(f"padding {padding} is {problem} {kernel}")
    return (channels, *_window(attributes, height, width))


def too_wide(padding: tuple[int, ...], kernel: tuple[int, int]) -> str:
    """What is wrong with the padding of a pooling, ``""`` if nothing: a window of padding alone has no maximum."""
    if len(padding) == 4:
        return (
            "as wide as the window" if any(p >= k for p, k in zip(padding, kernel * 2, strict=True)) else ""
        )
    wide = any(2 * p > k for p, k in zip(padding, kernel, strict=True))
    return "more than half of the window" if wide else ""


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


def _clip_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    if attributes["low"] > attributes["high"]:  # type: ignore[operator]
        raise NetworkError(
            f"clips to {attributes['low']} and {attributes['high']}, which leave nothing between"
        )
    return inputs[0]


def _slice_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    start, stop = integer(attributes, "start"), integer(attributes, "stop")
    if not start < stop <= inputs[0][0]:
        raise NetworkError(f"takes channels {start} to {stop} of {inputs[0][0]}")
    return (stop - start, *inputs[0][1:])


def _shuffle_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    channels, groups = _plane(inputs)[0], integer(attributes, "groups")
    if channels % groups:
        raise NetworkError(f"{channels} channels do not divide into {groups} groups")
    return inputs[0]


def _resize_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    channels, height, width = _plane(inputs)
    if "size" not in attributes:
        rows, columns = pair(attributes, "scale") if "scale" in attributes else (1, 1)
        return channels, height * rows, width * columns
    size = pair(attributes, "size")
    if "scale" in attributes or min(size) < 1:
        raise NetworkError(f"resizes to {size} by {attributes.get('scale', (1, 1))}, expected one of the two")
    return channels, *size


def resizing(before: Sequence[int], after: Sequence[int]) -> dict[str, tuple[int, int]]:
    """The attributes that make ``after`` of ``before``, (height, width): a whole factor where there is one, else the size."""
    (height, width), (rows, columns) = before, after
    if rows % height or columns % width:
        return {"size": (rows, columns)}
    return {"scale": (rows // height, columns // width)}


def _pixel_shuffle_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    (channels, height, width), factor = _plane(inputs), integer(attributes, "factor")
    if channels % factor**2:
        raise NetworkError(f"{channels} channels do not divide into squares of {factor} x {factor}")
    return channels // factor**2, height * factor, width * factor


def _unflatten_shape(attributes: Attributes, inputs: Sequence[Shape]) -> Shape:
    if len(inputs[0]) != 1:
        raise NetworkError(f"needs a flat input (features,), found {inputs[0]}")
    return (inputs[0][0], 1, 1)


_CONV = {
    "out_channels": "int",
    "kernel_size": "pair",
    "stride": "pair",
    "padding": "padding",
    "groups": "int",
    "bias": "bool",
    "dilation": "pair",
    "shares": "name",
}
_TRANSPOSED = {**_CONV, "output_padding": "amounts"}
_PLAIN: Mapping[str, Attribute] = {"dilation": (1, 1), "shares": ""}
_PLAIN_CONV: Mapping[str, Attribute] = {**_PLAIN, "pruned_first": False}
"""The last is True for a first convolution whose weights may be pruned, see ``jcw_core.space.whole``."""
_WHOLE = {"shares": ""}
"""A layer whose weights another one has too names that one; see ``Network.shared``."""
_RESIZE = {"scale": "pair", "size": "amounts"}
_AS_IT_IS: Mapping[str, Attribute] = {"scale": (1, 1), "size": (0, 0)}
_POOL = {"kernel_size": "pair", "stride": "pair", "padding": "padding"}

OPERATIONS: Mapping[str, Operation] = {
    "input": Operation(0, {"shape": "shape"}, lambda a, i: _as_shape(a["shape"])),
    "output": Operation(1),
    "conv2d": Operation(
        1,
        {**_CONV, "pruned_first": "bool"},
        _conv_shape,
        _conv_parameters,
        macs=_conv_macs,
        defaults=_PLAIN_CONV,
    ),
    "conv_transpose2d": Operation(
        1,
        _TRANSPOSED,
        _transposed_shape,
        _conv_parameters,
        macs=_transposed_macs,
        defaults={**_PLAIN, "output_padding": (0, 0)},
    ),
    "linear": Operation(
        1,
        {"out_features": "int", "bias": "bool", "shares": "name"},
        _linear_shape,
        _linear_parameters,
        macs=_linear_macs,
        defaults=_WHOLE,
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
    "clip": Operation(1, {"low": "number", "high": "number"}, _clip_shape),
    "leaky_relu": Operation(1, {"slope": "number"}),
    "elu": Operation(1, {"alpha": "number"}),
    "prelu": Operation(1, parameters=lambda a, i: {"weight": i[0][:1]}),
    "softmax": Operation(1),
    "slice": Operation(1, {"start": "index", "stop": "int"}, _slice_shape),
    "channel_shuffle": Operation(1, {"groups": "int"}, _shuffle_shape),
    "resize_nearest": Operation(1, _RESIZE, _resize_shape, defaults=_AS_IT_IS),
    "resize_bilinear": Operation(
        1,
        {**_RESIZE, "align_corners": "bool"},
        _resize_shape,
        defaults={**_AS_IT_IS, "align_corners": False},
    ),
    "pixel_shuffle": Operation(1, {"factor": "int"}, _pixel_shuffle_shape),
    "unflatten": Operation(1, shape=_unflatten_shape),
}
"""Every operation by name. ``avg_pool`` counts the padding in its mean, as torch does.

``clip`` is to ``low`` and ``high``, the largest float32 where there is no limit; ``prelu`` has a slope per channel;
``softmax`` is over channels, ``slice`` takes channels from ``start`` to before ``stop``, ``channel_shuffle`` transposes
(groups, channels per group), and the resizing ones enlarge by whole factors (``scale``) or to any ``size``, as torch
does: bilinear with the centres of corner pixels half a pixel inside or, where ``align_corners`` is true, on one
another. ``pixel_shuffle`` makes squares of ``factor`` x ``factor`` pixels of that many channels, row by row, so a transposed convolution whose kernel is its stride is a 1 x 1 convolution before it. The weights of any other,
``conv_transpose2d``, lie as those of a convolution do, (out_channels, in_channels / groups, height, width). ``unflatten`` makes a plane of one pixel from each feature.
"""

LARGEST_FLOAT = 3.4028234663852886e38
"""The largest float32: a limit that limits nothing."""


def _as_shape(value: Attribute) -> Shape:
    assert isinstance(value, tuple)
    if len(value) not in (1, 3):
        raise NetworkError(f"shape is {value}, expected (channels, height, width) or (features,)")
    return value
