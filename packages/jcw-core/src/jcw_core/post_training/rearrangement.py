"""Rows that want the same inputs side by side, so that they share weight groups (after 1xN, Lin et al. 2022).

Four adjacent outputs keep or lose an input together, so what four rows lose depends on which four they are. Channels move
within stretches of the order that they have, so that the first of a group remain those that matter most.

Shapes: C channels of a group, D inputs of all layers that write it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jcw_core.network.channel_groups import couple
from jcw_core.network.channel_order import Orders
from jcw_core.network.graph import Network
from jcw_core.network.weight_groups import GROUP_SIZE
from jcw_core.post_training.removal import damped, inverse_of

STRETCH = 8 * GROUP_SIZE
"""Channels within which one may move: shorter keeps the order, longer finds better company."""


def rearranged(
    network: Network, tensors: Mapping[str, Tensor], grams: Mapping[str, Tensor], orders: Orders
) -> dict[str, NDArray[np.intp]]:
    """Orders of channels in which those of a weight group want the same inputs.

    Args:
        network: at full width.
        tensors: parameters by state-dict name, in the old order.
        grams: (D, D) by layer, in the old order; large layers, of which the diagonal is known, have no say.
        orders: the order of each group, the most important first.

    Returns:
        an order for each of ``orders``; every channel stays in its stretch, and those that are cut together stay as
        they are.
    """
    groups, found = couple(network).groups, {}
    for name, order in orders.items():
        wanted = _wanted(groups[name].layers, tensors, grams) if groups[name].step == 1 else None
        found[name] = order if wanted is None else arranged(wanted, order)
    return found


@torch.no_grad()
def _wanted(
    layers: Sequence[str], tensors: Mapping[str, Tensor], grams: Mapping[str, Tensor]
) -> NDArray[np.float64] | None:
    """What each channel loses with each input, w_j^2 / [H^-1]_jj as a share of its layer's, (C, D); None if never pruned."""
    parts = []
    for layer in layers:
        if layer in grams and grams[layer].ndim == 2:
            inverse = inverse_of(damped(grams[layer]))
            loss = tensors[f"{layer}.weight"].flatten(1).double().square() / inverse.diagonal()
            parts.append((loss / loss.sum().clamp_min(1e-30)).numpy())
    return np.concatenate(parts, 1) if parts else None


def arranged(wanted: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.intp]:
    """An order in which rows of ``wanted`` (C, D) that are alike come four by four.

    The first row that is left takes those three, one after the other, that are most like the sum of what is in its
    group (by the cosine of square roots, in which one large loss does not hide the others).
    """
    roots = np.sqrt(wanted)
    roots /= np.maximum(np.linalg.norm(roots, axis=1, keepdims=True), 1e-30)
    found: list[int] = []
    for start in range(0, len(order), STRETCH):
        left = order[start : start + STRETCH].tolist()
        while left:
            group = [left.pop(0)]
            while left and len(group) < GROUP_SIZE:
                likeness = roots[left] @ roots[group].sum(0)
                group.append(left.pop(int(likeness.argmax())))
            found += group
    return np.array(found, dtype=np.intp)
