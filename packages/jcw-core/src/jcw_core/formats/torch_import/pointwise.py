"""Operators on single elements: activations, sums and products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod

from jcw_core.formats.torch_import.arguments import only
from jcw_core.formats.torch_import.exported import Operator
from jcw_core.formats.torch_import.translation import Obstacle, Translation, Value
from jcw_core.network.operations import LARGEST_FLOAT


def _activation(op: str, net: Translation, operator: Operator) -> Value:
    return net.append(operator, op, net.node(operator.arguments["self"]))


def _clip(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    low, high = (a["min_val"], a["max_val"]) if "min_val" in a else (a["min"], a["max"])
    if low == 0 and high in (6, None):
        return net.append(operator, "relu6" if high else "relu", net.node(a["self"]))
    limits = [-LARGEST_FLOAT if low is None else float(low), LARGEST_FLOAT if high is None else float(high)]
    return net.append(
        operator,
        "clip",
        net.node(a["self"]),
        low=max(limits[0], -LARGEST_FLOAT),
        high=min(limits[1], LARGEST_FLOAT),
    )


def _leaky_relu(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    return net.append(operator, "leaky_relu", net.node(a["self"]), slope=float(a["negative_slope"]))


def _elu(net: Translation, operator: Operator) -> Value:
    only(operator, scale=1, input_scale=1)
    return net.append(
        operator, "elu", net.node(operator.arguments["self"]), alpha=float(operator.arguments["alpha"])
    )


def _prelu(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    source, weight = net.node(a["self"]), net.constant(a["weight"])
    channels = net.builder.channels(source)
    return net.append_weighted(
        operator, a["weight"], "prelu", source, {"weight": weight.reshape(-1).expand(channels)}
    )


def _softmax(net: Translation, operator: Operator) -> Value:
    axis, rank = operator.arguments["dim"], len(operator.shape)
    if axis % rank != 1:
        raise Obstacle(f"a softmax along axis {axis} has no place in a network; along channels has")
    return net.append(operator, "softmax", net.node(operator.arguments["self"]))


def _sum(net: Translation, operator: Operator) -> Value:
    only(operator, alpha=1)
    return _both("add", net, operator)


def _both(op: str, net: Translation, operator: Operator) -> Value:
    first, second = (net.node(operator.arguments[key]) for key in ("self", "other"))
    if prod(net.builder.shape(first)) < prod(net.builder.shape(second)):
        first, second = second, first  # the network's product has its factor of one value per channel second
    return net.append(operator, op, first, second)


POINTWISE: Mapping[str, Callable[[Translation, Operator], Value]] = {
    **{
        op: partial(_activation, op)
        for op in ("relu", "relu6", "hardswish", "hardsigmoid", "sigmoid", "silu")
    },
    "hardtanh": _clip,
    "clamp": _clip,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "prelu": _prelu,
    "_prelu_kernel": _prelu,
    "softmax": _softmax,
    "add": _sum,
    "mul": partial(_both, "mul"),
}
