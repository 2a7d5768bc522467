"""Convolutions of ones and zeros, which importers make of what only moves planes and channels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.operations import Attribute

Made = tuple[NDArray[np.float32], Mapping[str, Attribute]]
"""Weights and attributes of a convolution without a bias."""


def picking(
    channels: int,
    kernel: tuple[int, int] = (1, 1),
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, ...] = (0, 0),
) -> Made:
    """By channel: takes the last pixel of each window."""
    weights = np.zeros((channels, 1, *kernel), np.float32)
    weights[..., -1, -1] = 1
    return weights, _attributes(weights, stride, padding, groups=channels)


def widening(channels: int, before: int, after: int) -> Made:
    """Puts so many channels of zeros before and after the others."""
    weights = np.zeros((before + channels + after, channels, 1, 1), np.float32)
    weights[before : before + channels, :, 0, 0] = np.eye(channels)
    return weights, _attributes(weights)


def _attributes(
    weights: NDArray[np.float32],
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, ...] = (0, 0),
    groups: int = 1,
) -> Mapping[str, Attribute]:
    outputs, _, height, width = weights.shape
    return {
        "out_channels": outputs, "kernel_size": (height, width), "stride": stride, "padding": padding,
        "groups": groups, "bias": False,
    }  # fmt: skip
