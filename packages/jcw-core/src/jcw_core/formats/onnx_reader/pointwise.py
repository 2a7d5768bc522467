"""Operators on single elements: activations, also where exporters write them as several operators, sums and products.

HardSwish is x relu6(x + 3) / 6, HardSigmoid relu6(x + 3) / 6 and SiLU x sigmoid(x).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import inf, isclose, prod

from jcw_core.errors import FormatError
from jcw_core.formats.onnx_reader.graph import Constant, Operator
from jcw_core.formats.onnx_reader.translation import Part, Translation, Value

_SIXTH = 1 / 6
_GATED = {"sigmoid": "silu", "hardsigmoid": "hardswish"}
"""What an input times this function of it is."""


def _activation(op: str, net: Translation, operator: Operator) -> Value:
    return net.append(operator, op, net.node(operator.input(0)))


def _gate(form: str, net: Translation, operator: Operator) -> Value:
    if form == "hardsigmoid":
        alpha, beta = operator.attributes.get("alpha", 0.2), operator.attributes.get("beta", 0.5)
        if not (_is(alpha, _SIXTH) and _is(beta, 0.5)):
            raise FormatError(f"alpha {alpha!r} and beta {beta!r}; only 1/6 and 0.5 have a place")
    return Part(form, net.node(operator.input(0)), operator)


def _clip(net: Translation, operator: Operator) -> Value:
    low, high = (_limit(net, operator, *which) for which in (("min", 1, -inf), ("max", 2, inf)))
    value = net[operator.input(0)]
    if (low, high) == (0, 6) and isinstance(value, Part) and value.form == "shifted":
        return replace(value, form="clipped")
    if low != 0 or high not in (6, inf):
        raise FormatError(
            f"clips to {low} and {high}; only 0 and 6 (relu6), or 0 and no upper limit (relu), have a place"
        )
    return net.append(operator, "relu6" if high == 6 else "relu", net.node(operator.input(0)))


def _limit(net: Translation, operator: Operator, key: str, place: int, default: float) -> float | None:
    """A limit of a Clip: an input, in older versions an attribute."""
    if operator.has_input(place):
        return net.constant(operator.input(place)).scalar
    value = operator.attributes.get(key, default)
    # Exporters write the largest float32 for no limit.
    return inf if isinstance(value, float) and value > 3.4e38 else value


def _add(net: Translation, operator: Operator) -> Value:
    for name, other in _both_ways(operator):
        constant, value = net[other], net[name]
        if not isinstance(constant, Constant):
            continue
        if isinstance(value, Part) and value.form == "linear" and _is_bias(constant, value.features):
            return net.make(value, bias=True)
        if _is(constant.scalar, 3):
            return Part("shifted", net.node(name), operator)
        raise FormatError(
            f"adds the constant {other!r}; that has a place only as bias of a MatMul, and as 3 in hardswish and hardsigmoid"
        )
    return net.append(operator, "add", *map(net.node, operator.inputs))


def _is_bias(constant: Constant, features: int) -> bool:
    return constant.dims[-1:] == (features,) and prod(constant.dims) == features


def _mul(net: Translation, operator: Operator) -> Value:
    for name, other in _both_ways(operator):
        if isinstance(constant := net[other], Constant):
            return _scaled(net, operator, name, constant.scalar)
    for name, other in _both_ways(operator):
        gate = net[other]
        if isinstance(gate, Part) and gate.source == net[name]:
            if gate.form in _GATED:
                return net.append(operator, _GATED[gate.form], gate.source)
            if gate.form == "clipped":
                return replace(gate, form="product", operator=operator)
    return _product(net, operator)


def _product(net: Translation, operator: Operator) -> Value:
    """A product whose factors per channel, if any, come second."""
    first, second = net.node(operator.input(0)), net.node(operator.input(1))
    if net.shape(first)[2:] == (1, 1) != net.shape(second)[2:]:
        first, second = second, first
    return net.append(operator, "mul", first, second)


def _div(net: Translation, operator: Operator) -> Value:
    divisor = net.constant(operator.input(1)).scalar
    return _scaled(net, operator, operator.input(0), 1 / divisor if divisor else None)


def _scaled(net: Translation, operator: Operator, name: str, factor: float | None) -> Value:
    """The last step of hardswish or hardsigmoid."""
    value = net[name]
    if isinstance(value, Part) and _is(factor, _SIXTH):
        if value.form == "clipped":
            return Part("hardsigmoid", value.source, operator)
        if value.form == "product":
            return net.append(operator, "hardswish", value.source)
    raise FormatError("multiplies by a constant, which has a place only as 1/6 in hardswish and hardsigmoid")


def _both_ways(operator: Operator) -> tuple[tuple[str, str], tuple[str, str]]:
    first, second = operator.input(0), operator.input(1)
    return (first, second), (second, first)


def _is(value: object, expected: float) -> bool:
    """Equal within the precision of half floats."""
    return isinstance(value, float) and isclose(value, expected, rel_tol=1e-3)


POINTWISE: Mapping[str, Callable[[Translation, Operator], Value]] = {
    "Relu": partial(_activation, "relu"),
    "HardSwish": partial(_activation, "hardswish"),
    "Sigmoid": partial(_gate, "sigmoid"),
    "HardSigmoid": partial(_gate, "hardsigmoid"),
    "Clip": _clip,
    "Add": _add,
    "Mul": _mul,
    "Div": _div,
}
