"""Operators that move no data or join it; of the arithmetic on sizes, which ``folding.py`` does, what it cannot do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from jcw_core.errors import FormatError
from jcw_core.formats.ones import picking
from jcw_core.formats.onnx_reader.folding import TYPES
from jcw_core.formats.onnx_reader.graph import Constant, Operator
from jcw_core.formats.onnx_reader.translation import Grouped, Translation, Value
from jcw_core.network.operations import Shape

Made = Value | list[Value]
"""The value of an operator's first output, or of each."""


def _same(net: Translation, operator: Operator) -> Value:
    value = net[operator.input(0)]
    return value if isinstance(value, Constant) else net.node(operator.input(0))


def _constant(net: Translation, operator: Operator) -> Value:
    for value in operator.attributes.values():
        if isinstance(value, Constant):
            return value
        if isinstance(value, (int, float, tuple)):
            return _known(value)
    raise FormatError(f"a constant given by {', '.join(operator.attributes) or 'nothing'}; expected numbers")


def _cast(net: Translation, operator: Operator) -> Value:
    """Of constants, a change of type; values that depend on the image are floats, and stay so."""
    value, to = net[operator.input(0)], operator.integer("to", _FLOAT)
    if not isinstance(value, Constant):
        if to != _FLOAT:
            raise FormatError(f"turns values into type {to}; only float32, type {_FLOAT}, has a place")
        return _same(net, operator)
    if value.values is None or to not in TYPES:
        raise FormatError(f"turns a constant into type {to}; only short ones of {sorted(TYPES)} have a place")
    return Constant(value.dims, value.values.astype(TYPES[to]))


_FLOAT = 1
"""ONNX's number of float32."""


def _known(values: object) -> Constant:
    array = np.asarray(values)
    return Constant(array.shape, array)


def _shape(net: Translation, operator: Operator) -> Value:
    value = net[operator.input(0)]
    shape = value.dims if isinstance(value, Constant) else net.shape(net.node(operator.input(0)))
    return _known(shape[operator.integer("start", 0) : operator.integer("end", len(shape))])


def _gather(net: Translation, operator: Operator) -> Value:
    values, which = net.integers(operator.input(0)), net.constant(operator.input(1))
    indices = net.integers(operator.input(1))
    if any(not -len(values) <= index < len(values) for index in indices):
        raise FormatError(f"takes the sizes {indices} of {len(values)}")
    return _known(np.array([values[index] for index in indices], np.int64).reshape(which.dims))


def _of_sizes(net: Translation, operator: Operator) -> Value:
    raise FormatError(f"reads {list(operator.inputs)}; only short constants, as sizes are, have a place")


def _unsqueeze(net: Translation, operator: Operator) -> Value:
    """Features as planes of one pixel."""
    source = net.node(operator.input(0))
    shape, added = net.shape(source), sorted(net.axes(operator))
    if len(shape) != 2 or added not in ([2, 3], [-2, -1]):
        raise FormatError(f"adds the axes {tuple(added)} to {shape}; only features become planes")
    return net.append(operator, "unflatten", source)


def _concat(net: Translation, operator: Operator) -> Value:
    sources = list(map(net.node, operator.inputs))
    if operator.integer("axis", 1) not in (1, 1 - len(net.shape(sources[0]))):
        raise FormatError(
            f"joins along axis {operator.integer('axis', 1)}; only channels, axis 1, have a place"
        )
    return net.append(operator, "concat", *sources)


def _flatten(net: Translation, operator: Operator) -> Value:
    shape = net.shape(net.node(operator.input(0)))
    if (axis := operator.integer("axis", 1)) not in (1, 1 - len(shape)):
        raise FormatError(f"flattens from axis {axis}; only 1 has a place")
    return _as(net, operator, (shape[0], prod(shape[1:])))


def _transpose(net: Translation, operator: Operator) -> Value:
    value, order = net[operator.input(0)], operator.integers("perm", ())
    if not isinstance(value, Grouped) or value.is_turned or order != (0, 2, 1, 3, 4):
        raise FormatError(f"a transposition to {order}; only that of a channel shuffle has a place")
    return replace(value, is_turned=True)


def _grouped(net: Translation, operator: Operator, value: Grouped) -> Value:
    shape, target = net.shape(value.source), net.integers(operator.input(1))
    full = [shape[i] if size in (0, -1) else size for i, size in enumerate(target)]
    if len(full) != 4 or tuple(full) != shape:
        raise FormatError(f"turns groups of channels into {target}; only the channels' own shape has a place")
    if not value.is_turned:
        return value.source
    return net.append(operator, "channel_shuffle", value.source, groups=value.groups)


def _slice(net: Translation, operator: Operator) -> Value:
    node = net.node(operator.input(0))
    rank, channels = len(net.shape(node)), net.shape(node)[1]
    starts, stops, axes, steps = _ranges(net, operator)
    if rank == 4 and len(axes) == 1 and axes[0] % rank in (2, 3) and steps[0] > 0:
        return _every(net, operator, node, axes[0] % rank, (starts[0], stops[0], steps[0]))
    if [axis % rank for axis in axes] != [1] or steps != (1,):
        raise FormatError(
            f"takes a part along the axes {axes} in steps of {steps}; only one of channels has a place"
        )
    (start, stop) = (min(n + channels if n < 0 else n, channels) for n in (starts[0], stops[0]))
    return _channels(net, operator, node, start, stop)


def _every(
    net: Translation, operator: Operator, source: str, axis: int, picked: tuple[int, int, int]
) -> Value:
    """Every so manyth row or column, from one of the first to the last, as a convolution by channel of ones and zeros."""
    start, stop, step = picked
    size = net.shape(source)[axis]
    if not 0 <= start < step or stop < size:
        raise FormatError(
            f"takes pixels {start} to {stop} of {size} in steps of {step}; only whole planes have a place"
        )
    kernel, stride = ((start + 1, 1), (step, 1)) if axis == 2 else ((1, start + 1), (1, step))
    return net.append_made(operator, source, picking(net.shape(source)[1], kernel, stride))


def _ranges(net: Translation, operator: Operator) -> tuple[tuple[int, ...], ...]:
    """Starts, stops, axes and steps; attributes in old versions, inputs in later ones."""
    if not operator.has_input(1):
        starts, stops = (operator.integers(key, ()) for key in ("starts", "ends"))
        return starts, stops, operator.integers("axes", ()) or tuple(range(len(starts))), (1,) * len(starts)
    starts, stops = net.integers(operator.input(1)), net.integers(operator.input(2))
    axes = net.integers(operator.input(3)) if operator.has_input(3) else tuple(range(len(starts)))
    return (
        starts,
        stops,
        axes,
        net.integers(operator.input(4)) if operator.has_input(4) else (1,) * len(starts),
    )


def _channels(net: Translation, operator: Operator, source: str, start: int, stop: int) -> str:
    if (start, stop) == (0, net.shape(source)[1]):
        return source
    return net.append(operator, "slice", source, start=start, stop=stop)


def _split(net: Translation, operator: Operator) -> Made:
    source, count = net.node(operator.input(0)), len(operator.outputs)
    rank, channels = len(net.shape(source)), net.shape(source)[1]
    if operator.integer("axis", 0) % rank != 1:
        raise FormatError(
            f"splits along axis {operator.integer('axis', 0)}; only channels, axis 1, have a place"
        )
    each = -(-channels // count)
    sizes = net.integers(operator.input(1)) if operator.has_input(1) else operator.integers("split", ())
    sizes = sizes or tuple(min(each, channels - i * each) for i in range(count))
    if sum(sizes) != channels or len(sizes) != count:
        raise FormatError(f"splits {channels} channels into {sizes}")
    stops = np.cumsum(sizes).tolist()
    return [
        _channels(net, operator, source, stop - size, stop) for size, stop in zip(sizes, stops, strict=True)
    ]


def _reshape(net: Translation, operator: Operator) -> Value:
    if isinstance(value := net[operator.input(0)], Grouped):
        return _grouped(net, operator, value)
    wanted = net.integers(operator.input(1))
    if isinstance(value, Constant):
        target = _sizes(value.dims, wanted)
        if prod(target) != prod(value.dims):
            raise FormatError(f"turns a constant of shape {value.dims} into {target}")
        return Constant(target, None if value.values is None else value.values.reshape(target))
    return _as(net, operator, _sizes(net.shape(net.node(operator.input(0))), wanted))


def _sizes(shape: Shape, wanted: Sequence[int]) -> Shape:
    """The target of a Reshape: 0 keeps a size, -1 is what remains."""
    target = [shape[i] if size == 0 and i < len(shape) else size for i, size in enumerate(wanted)]
    if target.count(-1) == 1:
        target[target.index(-1)] = prod(shape) // max(-prod(target), 1)
    return tuple(target)


def _squeeze(net: Translation, operator: Operator) -> Value:
    shape = net.shape(net.node(operator.input(0)))
    axes = net.axes(operator)
    removed = {axis % len(shape) for axis in axes}
    if not removed or any(shape[axis] != 1 for axis in removed):
        raise FormatError(f"removes the axes {axes} of {shape}; only named ones of size 1 can be removed")
    return _as(net, operator, [size for axis, size in enumerate(shape) if axis not in removed])


def _as(net: Translation, operator: Operator, target: Sequence[int] | Shape) -> Value:
    """The operator's input in another shape."""
    source = net.node(operator.input(0))
    shape = net.shape(source)
    if tuple(target) == shape:
        return source
    if len(target) == 5 and len(shape) == 4 and (target[0], *target[3:]) == (shape[0], *shape[2:]):
        return Grouped(source, target[1])
    if tuple(target) == (*shape, 1, 1):
        return net.append(operator, "unflatten", source)
    if tuple(target) != (shape[0], prod(shape[1:])):
        raise FormatError(f"turns the shape {shape} into {tuple(target)}; only flattening has a place")
    return net.append(operator, "flatten", source)


SHAPES: Mapping[str, Callable[[Translation, Operator], Made]] = {
    "Cast": _cast,
    "Ceil": _of_sizes,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _of_sizes,
    "Dropout": _same,
    "Flatten": _flatten,
    "Floor": _of_sizes,
    "Gather": _gather,
    "Identity": _same,
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
