"""Batch norm folded into the weights before it, in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.layers import FusedLayer
from jcw_core.network.operations import LAYERS

Arrays = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Folded:
    """Weights of one layer: ``weight`` (out, in / groups, kh, kw) or (out, in), ``bias`` (out,), float32."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]


def fold(layer: FusedLayer, arrays: Arrays) -> Folded | None:
    """Weights of ``layer`` with its batch norm folded in; None for layers without weights.

    A batch norm that stands alone becomes a depthwise 1 x 1 convolution.
    """
    node = layer.node
    if node.op == "batch_norm":
        scale, shift = _scale_and_shift(node.name, float(node.attributes["eps"]), arrays)  # type: ignore[arg-type]
        return Folded(scale.reshape(-1, 1, 1, 1).astype(np.float32), shift.astype(np.float32))
    if node.op not in LAYERS:
        return None
    weight = arrays[f"{node.name}.weight"].astype(np.float64)
    bias = np.zeros(weight.shape[0])
    if node.attributes["bias"]:
        bias += arrays[f"{node.name}.bias"]
    if layer.batch_norm is not None:
        eps = float(layer.batch_norm.attributes["eps"])  # type: ignore[arg-type]
        scale, shift = _scale_and_shift(layer.batch_norm.name, eps, arrays)
        weight *= scale.reshape(-1, *[1] * (weight.ndim - 1))
        bias = bias * scale + shift
    return Folded(weight.astype(np.float32), bias.astype(np.float32))


def _scale_and_shift(
    name: str, eps: float, arrays: Arrays
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    gamma, beta, mean, var = (
        arrays[f"{name}.{key}"].astype(np.float64)
        for key in ("weight", "bias", "running_mean", "running_var")
    )
    scale = gamma / np.sqrt(var + eps)
    return scale, beta - mean * scale
