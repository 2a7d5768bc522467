"""Weight groups and the masks that keep the strongest of them.

A weight group is four adjacent output channels at one input position (input channel, row, column);
its weights live or die together (section 3.1 of the paper). The last group of a layer whose output
channels are not a multiple of four is smaller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GROUP_SIZE = 4


def weight_groups(out_channels: int) -> int:
    """Number of weight groups along the output axis."""
    return -(-out_channels // GROUP_SIZE)


def kept_groups(density: float, groups: int) -> int:
    """Weight groups that remain of ``groups`` at ``density``: rounded, at least one above density 0."""
    if density <= 0:
        return 0
    return min(groups, max(1, int(density * groups + 0.5)))


def group_norms(weight: NDArray[np.floating], order: int) -> NDArray[np.float64]:
    """Norm of each weight group.

    Args:
        weight: (out_channels, in_channels, kernel_height, kernel_width) or (out, in).
        order: 1 for supernet masks, 2 for ADMM's projection.

    Returns:
        (ceil(out_channels / 4), ...) with the other axes as they were.
    """
    powers = np.abs(weight.astype(np.float64)) ** order
    starts = np.arange(0, weight.shape[0], GROUP_SIZE)
    sums: NDArray[np.float64] = np.add.reduceat(powers, starts, axis=0)
    return sums if order == 1 else sums ** (1 / order)


def density_mask(weight: NDArray[np.floating], density: float, order: int = 2) -> NDArray[np.bool_]:
    """Mask of the ``density`` share of weight groups with the largest norms; ties go to the first.

    Returns:
        booleans in the shape of ``weight``.
    """
    norms = group_norms(weight, order)
    keep = kept_groups(density, norms.size)
    order_of_groups = np.argsort(-norms, axis=None, kind="stable")
    flat = np.zeros(norms.size, dtype=bool)
    flat[order_of_groups[:keep]] = True
    return np.repeat(flat.reshape(norms.shape), GROUP_SIZE, axis=0)[: weight.shape[0]]


def weight_density(weight: NDArray[np.floating]) -> float:
    """Share of the weight groups of ``weight`` that hold a value other than zero."""
    norms = group_norms(weight, 1)
    return float(np.count_nonzero(norms) / norms.size)
