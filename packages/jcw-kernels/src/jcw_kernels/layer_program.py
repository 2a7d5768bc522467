"""A ``LayerProblem`` as a program: what is to be timed behind the layers that feed it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from jcw_core.errors import DeviceError
from jcw_core.network.operations import ACTIVATIONS, CONVOLUTIONS, LAYERS
from jcw_core.network.problem import LayerProblem
from jcw_core.network.weight_groups import GROUP_SIZE, kept_groups, weight_groups
from jcw_core.protocols import Precision, Products
from jcw_kernels.gains import gains_from_int8
from jcw_kernels.model_file import stated

_POOL = 1 << 16
_WEIGHTED = LAYERS | {"batch_norm"}
_PORTABLE = (
    *("clip", "leaky_relu", "elu", "prelu", "softmax", "slice", "channel_shuffle"),
    *("resize_nearest", "resize_bilinear", "pixel_shuffle", "unflatten"),
)
_WINDOW = ("kernel_size", "stride", "padding", "dilation", "output_padding")

Tensors = dict[str, NDArray[Any]]


def layer_file(
    problem: LayerProblem,
    rng: np.random.Generator,
    precision: Precision = "float32",
    products: Products = "bytes",
) -> tuple[bytes, int]:
    """The contents of a ``model.jcw`` for one layer with random weights, pruned to its density.

    Args:
        problem: what to time.
        rng: for the weights.
        precision: as in networks that compute so; of int8, in the layers that ``calibrate`` takes.
        products: what the processor sums up at once of whole numbers, by which these are chosen.

    Returns:
        the file, and the number of the layer from which on it is to be timed: those before it only make inputs.

    Raises:
        DeviceError: an operation that costs nothing to run or is unknown.
    """
    inputs, layers = _sources(problem)
    tensors: Tensors = {}
    parts = {"layer": problem} | ({"then": problem.then} if problem.then else {})
    other = _other(problem)
    if other is not None:
        layers.append(_entry("other", other, inputs))
        tensors |= _weights("other", other, rng)
    first, residual = len(layers), len(layers)
    for name, part in parts.items():
        layers.append(_entry(name, part, inputs) | ({"residual": residual} if part.residual else {}))
        inputs = [len(layers)]
        if precision == "int8" and gains_from_int8(part, products):
            layers[-1] |= {"input_scale": 0.02, "input_zero": 128}
            tensors |= _numbers(name, _weights(name, part, rng))
        elif part.op in _WEIGHTED:
            tensors |= _weights(name, part, rng)
        if part.activation == "prelu":
            tensors[f"{name}.slopes"] = np.full(part.out_channels, 0.25, np.float32)
        if part.op == "prelu":
            tensors[f"{name}.weight"] = np.full(part.in_channels, 0.25, np.float32)
    program = {"input": list(_input_shape(problem)), "units": layers, "output": len(layers)}
    if precision == "int8" and not any("input_scale" in entry for entry in layers):
        precision = "float32"
    return save(tensors, stated({"program": json.dumps(program), "precision": precision}, tensors)), first


def _numbers(name: str, tensors: Tensors) -> Tensors:
    """The same weights as whole numbers."""
    stored = f"{name}.values" if f"{name}.values" in tensors else f"{name}.weight"
    values = np.clip(np.rint(40 * tensors[stored]), -127, 127).astype(np.int8)
    scale = np.full(len(tensors[f"{name}.bias"]), 1 / 40, np.float32)
    return tensors | {stored: values, f"{name}.scale": scale}


def _other(problem: LayerProblem) -> LayerProblem | None:
    """A layer without any weight that makes the residual, a tensor in the output's shape; None without one."""
    last = problem.then or problem
    if not last.residual:
        return None
    window = {key: getattr(last, key) for key in _WINDOW}
    return replace(problem, **window, density=0.0, activation="", residual=False, then=None)


def _input_shape(problem: LayerProblem) -> tuple[int, int, int]:
    channels = problem.in_channels if problem.op != "concat" else -(-problem.in_channels // 2)
    return channels, problem.in_height, problem.in_width


def _sources(problem: LayerProblem) -> tuple[list[int], list[dict[str, Any]]]:
    """Tensor numbers that the layer reads, and the layers that make them from the input."""
    copy = {"name": "source", "op": "activation", "inputs": [0], "activation": ""}
    if problem.op in ("add", "mul", "concat"):
        return [1, 2], [copy, {**copy, "name": "second"}]
    if problem.op == "scale":
        return [1, 2], [copy, {**copy, "name": "factors", "op": "global_avg_pool"}]
    return [1], [copy]


def _entry(name: str, problem: LayerProblem, inputs: list[int]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": name,
        "op": problem.op,
        "inputs": inputs,
        "activation": problem.activation,
    }
    if problem.op in ("input", "output"):
        raise DeviceError(f"{problem.op} does no work that could be timed")
    if problem.op in ACTIVATIONS:
        return entry | {"op": "activation", "activation": problem.op}
    if problem.op == "scale":
        return entry | {"op": "mul"}
    if problem.op in _PORTABLE:
        return entry | _portable(problem)
    window = {key: list(getattr(problem, key)) for key in _WINDOW}
    if problem.op == "batch_norm":
        return entry | {"op": "conv2d", "out_channels": problem.in_channels, "groups": problem.in_channels}
    if problem.op in LAYERS:
        entry |= {"out_channels": problem.out_channels, "groups": problem.groups}
    return entry | window


def _portable(problem: LayerProblem) -> dict[str, Any]:
    """What such an operation is to be timed with, where it asks for more than a problem says."""
    if problem.op == "unflatten":
        return {"op": "flatten"}
    if problem.op == "slice":
        return {"out_channels": problem.out_channels}
    if problem.op == "channel_shuffle":
        return {"groups": 2 if problem.in_channels % 2 == 0 else 1}
    if problem.op == "pixel_shuffle":
        return {"factor": problem.stride[0]}
    if problem.op.startswith("resize"):
        return {"size": list(problem.size)} if any(problem.size) else {"scale": list(problem.stride)}
    return {}


def _weights(name: str, problem: LayerProblem, rng: np.random.Generator) -> Tensors:
    """Random values, repeated from a pool: drawing millions of them would take longer than timing."""
    kernel = problem.kernel_size if problem.op in CONVOLUTIONS else (1, 1)
    groups = problem.in_channels if problem.op == "batch_norm" else problem.groups
    pool = rng.standard_normal(_POOL, dtype=np.float32)
    bias = np.resize(pool, problem.out_channels)
    positions = problem.in_channels // groups * kernel[0] * kernel[1]
    if problem.is_depthwise or problem.op == "batch_norm":
        weight = np.resize(pool, (problem.out_channels, positions))
        return {f"{name}.bias": bias, f"{name}.weight": weight * np.float32(problem.density > 0)}
    count = weight_groups(problem.out_channels) * positions
    kept = kept_groups(problem.density, count)
    bits = np.zeros(count, bool)
    bits[rng.permutation(count)[:kept]] = True
    values = np.resize(pool, (kept, GROUP_SIZE))
    return {
        f"{name}.bias": bias,
        f"{name}.mask": np.packbits(bits, bitorder="little"),
        f"{name}.values": values,
    }
