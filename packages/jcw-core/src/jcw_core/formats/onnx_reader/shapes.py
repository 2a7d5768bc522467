"""Operators that move no data or join it, and the arithmetic on shapes that exporters write before a Reshape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from jcw_core.errors import FormatError
from jcw_core.formats.onnx_reader.graph import Constant, Operator
from jcw_core.formats.onnx_reader.translation import Translation, Value
from jcw_core.network.operations import Shape


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


def _known(values: object) -> Constant:
    array = np.asarray(values)
    return Constant(array.shape, array)


def _shape(net: Translation, operator: Operator) -> Value:
    shape = net.shape(net.node(operator.input(0)))
    return _known(shape[operator.integer("start", 0) : operator.integer("end", len(shape))])


def _gather(net: Translation, operator: Operator) -> Value:
    values, which = net.integers(operator.input(0)), net.constant(operator.input(1))
    indices = net.integers(operator.input(1))
    if any(not -len(values) <= index < len(values) for index in indices):
        raise FormatError(f"takes the sizes {indices} of {len(values)}")
    return _known(np.array([values[index] for index in indices], np.int64).reshape(which.dims))


def _unsqueeze(net: Translation, operator: Operator) -> Value:
    """One number as a list of it."""
    values = net.integers(operator.input(0))
    if len(values) != 1:
        raise FormatError("only a single number has a place")
    return _known(values)


def _concat(net: Translation, operator: Operator) -> Value:
    if all(isinstance(net[name], Constant) for name in operator.inputs):
        return _known([size for name in operator.inputs for size in net.integers(name)])
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


def _reshape(net: Translation, operator: Operator) -> Value:
    shape, wanted = net.shape(net.node(operator.input(0))), net.integers(operator.input(1))
    # 0 keeps a size, -1 is what remains.
    target = [shape[i] if size == 0 and i < len(shape) else size for i, size in enumerate(wanted)]
    if target.count(-1) == 1:
        target[target.index(-1)] = prod(shape) // max(-prod(target), 1)
    return _as(net, operator, target)


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
    if tuple(target) != (shape[0], prod(shape[1:])):
        raise FormatError(f"turns the shape {shape} into {tuple(target)}; only flattening has a place")
    return net.append(operator, "flatten", source)


SHAPES: Mapping[str, Callable[[Translation, Operator], Value]] = {
    "Concat": _concat,
    "Constant": _constant,
    "Dropout": _same,
    "Flatten": _flatten,
    "Gather": _gather,
    "Identity": _same,
    "Reshape": _reshape,
    "Shape": _shape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}
