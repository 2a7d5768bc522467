"""Weights on disk: one bit per weight group, the values of the groups that are kept, and what type they are of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.weight_groups import GROUP_SIZE, weight_groups
from jcw_core.protocols import WeightType

DENSE_ABOVE = 31 / 32
"""Share of kept groups above which the bits hardly cost less than the zeros."""

_HALF = np.finfo(np.float16)


def as_stored(weight: NDArray[np.float32], weights: WeightType) -> NDArray[Any]:
    """``weight`` as a file holds it.

    In float16 a weight is off by 2^-11 of itself at most, or, where it is small, of the largest one. A layer whose largest
    weight is beyond float16, or no normal number of it, stays float32.
    """
    if weights == "float32" or not weight.size:
        return weight
    largest = np.abs(weight).max()
    return weight.astype(np.float16) if _HALF.tiny <= largest <= _HALF.max else weight


def pack(weight: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[Any]] | None:
    """Split ``weight`` into the bits and values of its groups.

    Args:
        weight: (out, ...), of any type.

    Returns:
        ``mask``: bit ``g * positions + p``, least significant first, is 1 where group ``g`` (four
        output channels) is kept at position ``p`` of the flattened other axes; and ``values``
        (kept, 4) of that type. None when nearly everything is kept.
    """
    out = weight.shape[0]
    groups = weight_groups(out)
    padded = np.zeros((groups * GROUP_SIZE, weight.size // out), weight.dtype)
    padded[:out] = weight.reshape(out, -1)
    by_group = padded.reshape(groups, GROUP_SIZE, -1).transpose(0, 2, 1)
    kept = (by_group != 0).any(axis=2)
    if kept.mean() > DENSE_ABOVE:
        return None
    return np.packbits(kept.reshape(-1), bitorder="little"), np.ascontiguousarray(by_group[kept])
