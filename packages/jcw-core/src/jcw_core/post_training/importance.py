"""Which channels of a group matter most, by the error that each one's removal adds to the layers that read it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jcw_core.errors import PluginError, within_memory
from jcw_core.network.channel_groups import Coupling, couple
from jcw_core.network.graph import Network
from jcw_core.network.operations import LAYERS
from jcw_core.post_training.removal import damped, inverse_of


@torch.no_grad()
def channel_saliency(
    network: Network, weights: Mapping[str, Tensor], grams: Mapping[str, Tensor]
) -> dict[str, NDArray[np.float64]]:
    """Saliency of each channel of the groups that may be cut, (channels,) by group.

    The optimal brain surgeon's error of leaving an input out, sum of w_j^2 / [H^-1]_jj over the rows of a layer, relative
    to the energy of the layer's outputs, summed over the layers that read the channel. A group that only layers without
    a Gram matrix read (depthwise ones aside, which hand their channels on) has the L1 norm of what writes it.

    Args:
        weights: parameters by state-dict name.
        grams: (D, D) by layer, (D,) of large ones; see ``statistics``.
    """
    coupling, saliency = couple(network), nothing_yet(network)
    for layer, gram in grams.items():
        with within_memory(f"layer {layer!r}, whose inputs are ordered"):
            cost = _cost(weights[f"{layer}.weight"].flatten(1), gram)
        add_to_channels(coupling, network[layer].inputs[0], cost.numpy(), saliency)
    return _or_l1(network, weights, saliency)


def _cost(weight: Tensor, gram: Tensor) -> Tensor:
    """What a layer loses with each of its inputs, (D,), as a share of its energy."""
    if gram.ndim == 1:
        alone: Tensor = torch.linalg.vector_norm(weight, dim=0).double().square() * gram
        return alone / (alone.sum() + 1e-30)
    rows, system = weight.double(), damped(gram)
    energy = float(((rows @ system) * rows).sum()) + 1e-30
    return rows.square().sum(0) / inverse_of(system).diagonal() / energy


@torch.no_grad()
def l1_norms(network: Network, weights: Mapping[str, Tensor]) -> dict[str, NDArray[np.float64]]:
    """The L1 norm of the weights that write each channel, of all its layers (Li et al. 2017), (channels,) by group."""
    coupling, norms = couple(network), nothing_yet(network)
    for node in network:
        if node.op in LAYERS:
            rows = weights[f"{node.name}.weight"].flatten(1).abs().sum(1)
            add_to_channels(coupling, node.name, rows.double().numpy(), norms)
    return norms


@torch.no_grad()
def batch_norm_scales(network: Network, weights: Mapping[str, Tensor]) -> dict[str, NDArray[np.float64]]:
    """|gamma| of the batch norms on each channel (Liu et al. 2017), L1 norms where there are none; (channels,) by group."""
    coupling, scales = couple(network), nothing_yet(network)
    for node in network:
        if node.op == "batch_norm":
            gamma = weights[f"{node.name}.weight"].abs().double().numpy()
            add_to_channels(coupling, node.name, gamma, scales)
    return _or_l1(network, weights, scales)


def _or_l1(
    network: Network, weights: Mapping[str, Tensor], saliency: dict[str, NDArray[np.float64]]
) -> dict[str, NDArray[np.float64]]:
    """Groups of which nothing is known have the L1 norms of their weights."""
    norms = l1_norms(network, weights)
    return {name: values if values.any() else norms[name] for name, values in saliency.items()}


def nothing_yet(network: Network) -> dict[str, NDArray[np.float64]]:
    """Zeros (channels,) by name of each group that may be cut."""
    groups = couple(network).groups.items()
    return {name: np.zeros(group.channels) for name, group in groups if not group.fixed}


def add_to_channels(
    coupling: Coupling, node: str, cost: NDArray[np.float64], saliency: dict[str, NDArray[np.float64]]
) -> None:
    """Add what is told of a node's outputs (D,), D a multiple of its features, to the channels that they are of."""
    features = sum(coupling.groups[s.group].channels * s.repeat for s in coupling.layout[node])
    per_feature, start = cost.reshape(features, -1).sum(1), 0
    for segment in coupling.layout[node]:
        channels = coupling.groups[segment.group].channels
        end = start + channels * segment.repeat
        if segment.group in saliency:
            saliency[segment.group] += per_feature[start:end].reshape(channels, -1).sum(1)
        start = end


def check_importance(
    name: str, network: Network, found: Mapping[str, NDArray[np.float64]]
) -> Mapping[str, NDArray[np.float64]]:
    """What the criterion ``name`` has measured, as it was. Raises ``PluginError`` for what is no order of channels."""
    expected = nothing_yet(network)
    for group, values in found.items():
        if group not in expected:
            raise PluginError(
                f"importance {name!r} ranks {group!r}, no group of {network.name} that may be cut"
            )
        wanted = expected[group].shape
        if np.shape(values) != wanted or not np.isfinite(values).all():
            raise PluginError(
                f"importance {name!r} of group {group!r} is {np.shape(values)} or not finite, expected {wanted} numbers"
            )
    return found


def by_importance(
    network: Network, saliency: Mapping[str, NDArray[np.float64]]
) -> dict[str, NDArray[np.intp]]:
    """Channels of each group, the most important first. Those that are cut together stay together, by their mean."""
    groups, orders = couple(network).groups, {}
    for name, values in saliency.items():
        step = groups[name].step
        together = np.argsort(-values.reshape(-1, step).mean(1), kind="stable")
        orders[name] = (together[:, None] * step + np.arange(step)).flatten()
    return orders
