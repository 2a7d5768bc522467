"""Channels in another order: one order per channel group, applied to whoever writes and whoever reads a channel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import ArchitectureError
from jcw_core.network.channel_groups import ChannelGroup, Coupling, couple
from jcw_core.network.graph import Network
from jcw_core.network.shrink import Weights, take_features

Orders = Mapping[str, NDArray[np.intp]]
"""By name of a channel group, its old channels in their new order, (channels,)."""


def permute_channels(network: Network, weights: Weights, orders: Orders) -> dict[str, NDArray[np.float32]]:
    """The weights of the same function with the channels of each group in a new order.

    What the network computes stays as it was, but for rounding: a layer's inputs are permuted as the outputs that
    they read are. With the most important channels first, the first c of a group are the best c.

    Args:
        network: at full width.
        weights: by state-dict name.
        orders: groups that are left out keep theirs.

    Returns:
        copies, by the same names.

    Raises:
        ArchitectureError: no such group, one whose channels may not be cut, or no permutation of its channels, in whole
            steps.
    """
    coupling = couple(network)
    for name, order in orders.items():
        group = coupling.groups.get(name)
        if group is None or group.fixed or not _is_order(order, group):
            raise ArchitectureError(f"{network.name}: not an order of the channels of a group {name!r}")
    return take_features(network, weights, lambda node: features_in_order(coupling, node, orders))


def _is_order(order: NDArray[np.intp], group: ChannelGroup) -> bool:
    """Whether it holds every channel once, and those of a step together and in their order."""
    steps = order.reshape(-1, group.step) if order.size == group.channels else order[None]
    whole = np.array_equal(np.sort(order), np.arange(group.channels))
    return whole and bool(((steps % group.step) == np.arange(group.step)).all())


def features_in_order(coupling: Coupling, node: str, orders: Orders) -> NDArray[np.intp]:
    """Old positions on the output axis of ``node`` in their new order."""
    parts, start = [], 0
    for segment in coupling.layout[node]:
        channels = coupling.groups[segment.group].channels
        order = orders.get(segment.group, np.arange(channels))
        features = order[:, None] * segment.repeat + np.arange(segment.repeat)
        parts.append(start + features.ravel())
        start += channels * segment.repeat
    return np.concatenate(parts).astype(np.intp)
