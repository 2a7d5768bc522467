"""Pruned weights on disk: one bit per weight group, and the values of the groups that are kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.weight_groups import GROUP_SIZE, weight_groups

DENSE_ABOVE = 31 / 32
"""Share of kept groups above which the bits cost more than the zeros: one bit for four floats."""


def pack(weight: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float32]] | None:
    """Split ``weight`` into the bits and values of its groups.

    Args:
        weight: (out, ...) float32.

    Returns:
        ``mask``: bit ``g * positions + p``, least significant first, is 1 where group ``g`` (four
        output channels) is kept at position ``p`` of the flattened other axes; and ``values``
        (kept, 4) float32. None when nearly everything is kept.
    """
    out = weight.shape[0]
    groups = weight_groups(out)
    padded = np.zeros((groups * GROUP_SIZE, weight.size // out), np.float32)
    padded[:out] = weight.reshape(out, -1)
    by_group = padded.reshape(groups, GROUP_SIZE, -1).transpose(0, 2, 1)
    kept = (by_group != 0).any(axis=2)
    if kept.mean() > DENSE_ABOVE:
        return None
    return np.packbits(kept.reshape(-1), bitorder="little"), np.ascontiguousarray(by_group[kept])
