"""Whole numbers for weights and activations, which an int8 network computes with.

An activation tensor holds numbers q of 0 to 255, each worth ``scale * (q - zero)`` (Jacob et al. 2018); a weight is a number of
-127 to 127 times a scale of its output channel. A layer's bias makes up for what rounding its weights does to the mean of its
outputs (Nagel et al. 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jcw_kernels._engine import depthwise_gains_from_numbers, gains_from_numbers, linear_gains_from_numbers
from jcw_kernels.fold import Folded

_LARGEST = 127
"""Of a weight."""
_CLAMPS = ("", "relu", "relu6")
"""Activations that kernels apply by the range of the numbers they write."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the numbers of an activation tensor are worth.

    Args:
        scale: of one more.
        zero: the number that is worth 0.0.
        means: (channels,) of the true values.
    """

    scale: float
    zero: int
    means: NDArray[np.float64]


Quantization = Mapping[str, Numbers]
"""The numbers of a layer's input, by the layer's name; layers that are not there compute with floats."""


def quantized(folded: Folded, numbers: Numbers) -> tuple[NDArray[np.int8], NDArray[np.float32], Folded]:
    """Weights as numbers (out, ...), their scales (out,), and the layer with its bias made up for their rounding."""
    flat = folded.weight.reshape(len(folded.weight), -1)
    largest = np.abs(flat).max(axis=1, initial=0)
    scale = np.where(largest > 0, largest / _LARGEST, 1).astype(np.float32)
    by_channel = scale.reshape(-1, *[1] * (folded.weight.ndim - 1))
    rounded = np.clip(np.rint(folded.weight / by_channel), -_LARGEST, _LARGEST)
    lost = folded.weight.astype(np.float64) - rounded * by_channel
    by_input = lost.reshape(*lost.shape[:2], -1).sum(axis=2)
    depthwise = by_input.shape[1] == 1 and len(by_input) == len(numbers.means)
    bias = folded.bias + (by_input[:, 0] * numbers.means if depthwise else by_input @ numbers.means)
    return rounded.astype(np.int8), scale, replace(folded, bias=bias.astype(np.float32))


def gains(kernel_size: tuple[int, int], kept_inputs: float) -> bool:
    """Whether a convolution is faster with int8 by more than rounding its inputs costs, where there are dot products of bytes.

    Args:
        kernel_size: rows and columns of its window.
        kept_inputs: input channels that are left for an output in the mean.
    """
    return gains_from_numbers(*kernel_size, kept_inputs)


def linear_gains(inputs: int, outputs: int, density: float) -> bool:
    """The same of a linear layer, or of a convolution that makes one pixel.

    Args:
        inputs: weights of an output, those that are pruned included.
        outputs: of the layer.
        density: share of weights that are kept; all are multiplied.
    """
    return linear_gains_from_numbers(inputs, outputs, density)


def depthwise_gains(
    kernel_size: tuple[int, int], stride: tuple[int, int], activation: str, out_width: int
) -> bool:
    """The same of a depthwise convolution.

    Args:
        kernel_size: rows and columns of its window.
        stride: along both.
        activation: that follows it; where it does more than clamp, its neighbours make no numbers for it.
        out_width: pixels of a row of its output.
    """
    return depthwise_gains_from_numbers(kernel_size, stride, activation in _CLAMPS, out_width)
