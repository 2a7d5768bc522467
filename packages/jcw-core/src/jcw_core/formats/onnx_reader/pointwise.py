"""Operators on single elements: activations, also where exporters write them as several operators, sums and products.

HardSwish is x relu6(x + 3) / 6, HardSigmoid relu6(x + 3) / 6 and SiLU x sigmoid(x).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import inf, isclose, prod

import numpy as np

from jcw_core.errors import FormatError
from jcw_core.formats.onnx_reader.file import SOFTMAX_OF_ONE_AXIS
from jcw_core.formats.onnx_reader.graph import Constant, Operator
from jcw_core.formats.onnx_reader.translation import Layer, Part, Translation, Value
from jcw_core.network.operations import CONVOLUTIONS, LARGEST_FLOAT, Attribute

_SIXTH = 1 / 6
_GATED = {"sigmoid": "silu", "hardsigmoid": "hardswish"}
"""What an input times this function of it is."""


def _activation(op: str, net: Translation, operator: Operator) -> Value:
    return net.append(operator, op, net.node(operator.input(0)))


def _gate(form: str, net: Translation, operator: Operator) -> Value:
    if form == "hardsigmoid":
        alpha, beta = operator.attributes.get("alpha", 0.2), operator.attributes.get("beta", 0.5)
        if not (_is(net, alpha, _SIXTH) and _is(net, beta, 0.5)):
            scale, shift = (Constant((), np.asarray(value, np.float32)) for value in (alpha, beta))
            scaled = affine(net, operator, net.node(operator.input(0)), scale=scale, shift=shift)
            return net.append(operator, "clip", scaled, low=0.0, high=1.0)
    return Part(form, net.node(operator.input(0)), operator)


def _clip(net: Translation, operator: Operator) -> Value:
    low, high = (_limit(net, operator, *which) for which in (("min", 1, -inf), ("max", 2, inf)))
    value = net[operator.input(0)]
    if (low, high) == (0, 6) and isinstance(value, Part) and value.form == "shifted":
        made = value.otherwise
        assert made is not None
        return replace(value, form="clipped", otherwise=lambda: net.append(operator, "relu6", made()))
    source = net.node(operator.input(0))
    if low == 0 and high in (6, inf):
        return net.append(operator, "relu6" if high == 6 else "relu", source)
    if low is None or high is None:
        raise FormatError(f"clips to {low} and {high}; only numbers have a place")
    limits = {"low": max(low, -LARGEST_FLOAT), "high": min(high, LARGEST_FLOAT)}
    return net.append(operator, "clip", source, **limits)


def _with_number(op: str, key: str, default: float, net: Translation, operator: Operator) -> Value:
    return net.append(
        operator, op, net.node(operator.input(0)), **{key: operator.attributes.get("alpha", default)}
    )


def _prelu(net: Translation, operator: Operator) -> Value:
    source, slope = net.node(operator.input(0)), net.constant(operator.input(1))
    shape = net.shape(source)
    slopes = _per_channel(slope, shape[1], 0.0, planes=len(shape) == 4)
    return net.append_weighted(operator, "prelu", source, {"weight": slopes})


def _softmax(net: Translation, operator: Operator) -> Value:
    source = net.node(operator.input(0))
    shape, is_old = net.shape(source), net.opset < SOFTMAX_OF_ONE_AXIS
    axis = operator.integer("axis", 1 if is_old else -1)
    if axis % len(shape) != 1:
        raise FormatError(f"a softmax along axis {axis}; only one over channels, axis 1, has a place")
    if is_old and prod(shape[2:]) != 1:
        raise FormatError(
            f"a softmax over all of {shape[1:]} together, as axis {axis} means before opset {SOFTMAX_OF_ONE_AXIS}; "
            "only one over channels has a place"
        )
    return net.append(operator, "softmax", source)


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
        if isinstance(value, Part) and value.layer is not None and _is_bias(constant, value.layer):
            return net.make(value, bias=constant)
        made = partial(affine, net, operator, net.node(name), shift=constant)
        return (
            Part("shifted", net.node(name), operator, otherwise=made)
            if _is(net, constant.scalar, 3)
            else made()
        )
    return net.append(operator, "add", *map(net.node, operator.inputs))


def _sub(net: Translation, operator: Operator) -> Value:
    first, second = (net[name] for name in operator.inputs)
    if isinstance(second, Constant):
        negative = Constant(second.dims, None if second.values is None else -second.values)
        return affine(net, operator, net.node(operator.input(0)), shift=negative)
    shift = first if isinstance(first, Constant) else None
    minus = Constant((), np.asarray(-1, np.float32))
    turned = affine(net, operator, net.node(operator.input(1)), scale=minus, shift=shift)
    return turned if shift is not None else net.append(operator, "add", net.node(operator.input(0)), turned)


def _is_bias(constant: Constant, layer: Layer) -> bool:
    return "bias" not in layer.weights and _is_per_channel(
        constant, _features(layer), layer.op in CONVOLUTIONS
    )


def _features(layer: Layer) -> int:
    size = layer.attributes["out_channels" if layer.op in CONVOLUTIONS else "out_features"]
    assert isinstance(size, int)
    return size


def _is_per_channel(constant: Constant, channels: int, planes: bool) -> bool:
    """Whether a constant is one value for each channel, beside axes of one element."""
    after = 2 if planes else 0
    dims = constant.dims[: len(constant.dims) - after]
    ones = constant.dims[len(dims) :]
    return len(ones) == after and set(ones) <= {1} and dims[-1:] == (channels,) and prod(dims) == channels


def affine(
    net: Translation,
    operator: Operator,
    source: str,
    *,
    scale: Constant | None = None,
    shift: Constant | None = None,
) -> str:
    """X scale + shift by channel, as a depthwise 1 x 1 convolution; each a constant of one value or one per channel."""
    shape = net.shape(source)
    if len(shape) != 4:
        raise FormatError(f"a constant and a value of shape {shape}; only planes have a place")
    channels = shape[1]
    given = {"weight": scale, "bias": shift}
    arrays = {
        key: _per_channel(constant, channels, 1.0 if key == "weight" else 0.0)
        for key, constant in given.items()
    }
    attributes: dict[str, Attribute] = {
        "kernel_size": (1, 1),
        "stride": (1, 1),
        "padding": (0, 0),
        "groups": channels,
        "bias": True,
    }
    return net.append_weighted(operator, "conv2d", source, arrays, out_channels=channels, **attributes)


def _per_channel(
    constant: Constant | None, channels: int, default: float, *, planes: bool = True
) -> Constant:
    if constant is None:
        return Constant((channels,), np.full(channels, default, np.float32))
    if prod(constant.dims) != 1 and not _is_per_channel(constant, channels, planes):
        raise FormatError(
            f"a constant of shape {constant.dims}; only one value, or one per channel, has a place"
        )
    values = constant.values
    if values is not None:
        values = np.broadcast_to(values.reshape(-1), (channels,)).astype(np.float32)
    return Constant((channels,), values)


def _mul(net: Translation, operator: Operator) -> Value:
    for name, other in _both_ways(operator):
        if isinstance(constant := net[other], Constant):
            return _scaled(net, operator, name, constant)
    for name, other in _both_ways(operator):
        gate = net[other]
        if isinstance(gate, Part) and gate.source == net[name]:
            if gate.form in _GATED:
                return net.append(operator, _GATED[gate.form], gate.source)
            if gate.form == "clipped":
                return replace(gate, form="product", operator=operator, otherwise=None)
    return _product(net, operator)


def _product(net: Translation, operator: Operator) -> Value:
    """A product whose factors per channel, if any, come second."""
    first, second = net.node(operator.input(0)), net.node(operator.input(1))
    if net.shape(first)[2:] == (1, 1) != net.shape(second)[2:]:
        first, second = second, first
    return net.append(operator, "mul", first, second)


def _div(net: Translation, operator: Operator) -> Value:
    divisor = net.constant(operator.input(1))
    if divisor.values is not None and not divisor.values.all():
        raise FormatError("divides by zero")
    inverse = None if divisor.values is None else np.asarray(1 / divisor.values)
    return _scaled(net, operator, operator.input(0), Constant(divisor.dims, inverse))


def _scaled(net: Translation, operator: Operator, name: str, factor: Constant) -> Value:
    """The last step of hardswish or hardsigmoid, or a factor of each channel."""
    value = net[name]
    if isinstance(value, Part) and _is(net, factor.scalar, _SIXTH):
        if value.form == "clipped":
            return Part("hardsigmoid", value.source, operator)
        if value.form == "product":
            return net.append(operator, "hardswish", value.source)
    if isinstance(value, Part) and value.layer is not None:
        scaled = _scaled_layer(value.layer, factor)
        if scaled is not None:
            return replace(value, layer=scaled)
    return affine(net, operator, net.node(name), scale=factor)


def _scaled_layer(layer: Layer, factor: Constant) -> Layer | None:
    """A layer without bias times a factor, of one value or one per channel; None where it has another shape."""
    weight, features = layer.weights["weight"], _features(layer)
    single = prod(factor.dims) == 1
    if "bias" in layer.weights or not (single or _is_per_channel(factor, features, layer.op in CONVOLUTIONS)):
        return None
    if weight.values is None or factor.values is None:
        return layer  # where only costs are asked for
    factors = np.broadcast_to(factor.values.reshape(-1), (features,))
    values = weight.values * factors.reshape(-1, *[1] * (len(weight.dims) - 1)).astype(np.float32)
    return replace(layer, weights={**layer.weights, "weight": Constant(weight.dims, values)})


def _both_ways(operator: Operator) -> tuple[tuple[str, str], tuple[str, str]]:
    first, second = operator.input(0), operator.input(1)
    return (first, second), (second, first)


def _is(net: Translation, value: object, expected: float) -> bool:
    """Equal within the precision of half floats; of floats, where the network is to compute what the file does."""
    return isinstance(value, float) and isclose(value, expected, rel_tol=1e-6 if net.exact else 1e-3)


POINTWISE: Mapping[str, Callable[[Translation, Operator], Value]] = {
    "Relu": partial(_activation, "relu"),
    "HardSwish": partial(_activation, "hardswish"),
    "Sigmoid": partial(_gate, "sigmoid"),
    "HardSigmoid": partial(_gate, "hardsigmoid"),
    "Clip": _clip,
    "LeakyRelu": partial(_with_number, "leaky_relu", "slope", 0.01),
    "Elu": partial(_with_number, "elu", "alpha", 1.0),
    "PRelu": _prelu,
    "Softmax": _softmax,
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
}
