"""The arithmetic on sizes that exporters write before a Pad, a Reshape or a Resize: of short constants, in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.formats.onnx_reader.graph import Constant, Operator

Array = NDArray[Any]

_MOST = 64
"""Elements of the longest constant that is computed with."""
TYPES = {1: np.float32, 6: np.int32, 7: np.int64, 10: np.float16, 11: np.float64}
"""Numpy's types by ONNX's numbers."""


def fold(operator: Operator, inputs: Sequence[Constant]) -> Constant | None:
    """What an operator makes of constants; None where it is not known here, or cannot be computed."""
    values = [constant.values for constant in inputs]
    known = [array for array in values if array is not None and array.size <= _MOST]
    if operator.op not in FOLDED or len(known) != len(values):
        return None
    try:
        made = np.asarray(FOLDED[operator.op](operator, *known))
    except (ArithmeticError, IndexError, KeyError, OverflowError, TypeError, ValueError):
        return None
    return Constant(made.shape, made) if made.size <= _MOST else None


def _whole(values: Array) -> list[int]:
    if values.dtype.kind not in "iu":
        raise TypeError
    return [int(value) for value in values.reshape(-1)]


def _axes(operator: Operator, given: Sequence[Array]) -> tuple[int, ...]:
    """An attribute, or in later versions the second input."""
    return tuple(_whole(given[0])) if given else operator.integers("axes", ())


def _cast(operator: Operator, values: Array) -> Array:
    return values.astype(TYPES[operator.integer("to", 0)])


def _concat(operator: Operator, *values: Array) -> Array:
    return np.concatenate(values, operator.integer("axis", 0))


def _filled(operator: Operator, shape: Array) -> Array:
    value = operator.attributes.get("value")
    filling = np.zeros(1, np.float32) if value is None else value.values
    sizes = _whole(shape)
    if prod(sizes) > _MOST:
        raise ValueError
    return np.full(sizes, filling[0], filling.dtype)


def _gather(operator: Operator, values: Array, which: Array) -> Array:
    return np.take(values, np.array(_whole(which)).reshape(which.shape), operator.integer("axis", 0))


def _quotient(operator: Operator, values: Array, divisor: Array) -> Array:
    if not divisor.all():
        raise ZeroDivisionError
    exact = values / divisor
    return (np.trunc(exact) if values.dtype.kind in "iu" else exact).astype(values.dtype)


def _reshape(operator: Operator, values: Array, target: Array) -> Array:
    return values.reshape([values.shape[i] if size == 0 else size for i, size in enumerate(_whole(target))])


def _slice(operator: Operator, values: Array, *bounds: Array) -> Array:
    if bounds:
        starts, stops, *more = map(_whole, bounds)
    else:
        starts, stops = (list(operator.integers(key, ())) for key in ("starts", "ends"))
        more = [list(operator.integers("axes", tuple(range(len(starts)))))]
    axes = more[0] if more else list(range(len(starts)))
    steps = more[1] if len(more) > 1 else [1] * len(starts)
    index = [slice(None)] * values.ndim
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        index[axis] = slice(start, stop, step)
    return values[tuple(index)]


def _squeeze(operator: Operator, values: Array, *axes: Array) -> Array:
    return np.squeeze(values, _axes(operator, axes) or None)


def _transpose(operator: Operator, values: Array) -> Array:
    return values.transpose(operator.integers("perm", ()) or None)


def _unsqueeze(operator: Operator, values: Array, *axes: Array) -> Array:
    return np.expand_dims(values, _axes(operator, axes))


FOLDED: Mapping[str, Callable[..., Array]] = {
    "Add": lambda operator, a, b: a + b,
    "Cast": _cast,
    "Ceil": lambda operator, a: np.ceil(a),
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Div": _quotient,
    "Floor": lambda operator, a: np.floor(a),
    "Gather": _gather,
    "Mul": lambda operator, a, b: a * b,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": lambda operator, a, b: a - b,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""By operator."""
