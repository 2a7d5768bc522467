"""Operators on single elements: activations, sums and products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor

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


def _sum(sign: int, net: Translation, operator: Operator) -> Value:
    only(operator, alpha=1)
    a = operator.arguments
    if (shift := _number(net, a["other"])) is not None:
        return _affine(net, operator, a["self"], shift=sign * shift)
    shift = _number(net, a["self"])
    if sign < 0:
        turned = _affine(net, operator, a["other"], scale=torch.tensor(-1.0), shift=shift)
        return turned if shift is not None else net.append(operator, "add", net.node(a["self"]), turned)
    return _both("add", net, operator) if shift is None else _affine(net, operator, a["other"], shift=shift)


def _reverse_difference(net: Translation, operator: Operator) -> Value:
    """Torch's rsub: other - self."""
    a = operator.arguments
    return _sum(-1, net, replace(operator, arguments={**a, "self": a["other"], "other": a["self"]}))


def _product(net: Translation, operator: Operator) -> Value:
    a = operator.arguments
    for value, other in (("self", "other"), ("other", "self")):
        if (scale := _number(net, a[other])) is not None:
            return _affine(net, operator, a[value], scale=scale)
    return _both("mul", net, operator)


def _quotient(net: Translation, operator: Operator) -> Value:
    only(operator, rounding_mode=None)
    divisor = _number(net, operator.arguments["other"])
    if divisor is None:
        raise Obstacle("divides by a value that depends on the image")
    if not divisor.all():
        raise Obstacle("divides by zero")
    return _affine(net, operator, operator.arguments["self"], scale=1 / divisor)


def _number(net: Translation, argument: Any) -> Tensor | None:
    """A number, or a tensor that does not depend on the image; None for a value that does."""
    if isinstance(argument, (int, float)):
        return torch.tensor(float(argument))
    value = net.value(argument)
    return value.float() if isinstance(value, Tensor) else None


def _affine(
    net: Translation,
    operator: Operator,
    argument: Any,
    *,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
) -> str:
    """X scale + shift by channel, as a depthwise 1 x 1 convolution; each a constant of one value or one per channel."""
    source = net.node(argument)
    shape = net.builder.shape(source)
    if len(shape) != 3:
        raise Obstacle(f"a constant and a value of shape {shape}; only planes have a place")

    def by_channel(given: Tensor | None, default: float) -> Tensor:
        found = torch.tensor(default) if given is None else given
        planes = found.ndim >= 3 and tuple(found.shape[-3:]) == (shape[0], 1, 1) and found.numel() == shape[0]
        if found.numel() != 1 and not planes:
            raise Obstacle(
                f"a constant of shape {tuple(found.shape)}; only one value, or one per channel, has a place"
            )
        return found.reshape(-1).expand(shape[0])

    weights = {"weight": by_channel(scale, 1.0).reshape(-1, 1, 1, 1), "bias": by_channel(shift, 0.0)}
    return net.append_weighted(
        operator, None, "conv2d", source, weights,
        out_channels=shape[0], kernel_size=(1, 1), stride=(1, 1), padding=(0, 0), groups=shape[0], bias=True,
    )  # fmt: skip


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
    "add": partial(_sum, 1),
    "sub": partial(_sum, -1),
    "rsub": _reverse_difference,
    "mul": _product,
    "div": _quotient,
}
