"""Which channels of a group matter most, by the error that each one's removal adds to the layers that read it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jcw_core.network.channel_groups import Coupling, couple
from jcw_core.network.graph import Network
from jcw_core.post_training.removal import damped


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
        grams: (D, D) by layer, see ``statistics``.
    """
    coupling = couple(network)
    groups = {name: g for name, g in coupling.groups.items() if not g.fixed}
    saliency = {name: np.zeros(g.channels) for name, g in groups.items()}
    for layer, gram in grams.items():
        rows = weights[f"{layer}.weight"].flatten(1).double()
        system = damped(gram)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(system))
        energy = float(((rows @ system) * rows).sum()) + 1e-30
        cost = rows.square().sum(0) / inverse.diagonal() / energy
        _add(coupling, network[layer].inputs[0], cost.numpy(), saliency)
    for name, group in groups.items():
        if not saliency[name].any():
            for layer in group.layers:
                saliency[name] += weights[f"{layer}.weight"].flatten(1).abs().sum(1).double().numpy()
    return {name: _by_step(values, groups[name].step) for name, values in saliency.items()}


def _by_step(values: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """The mean of the channels that go together, for each of them."""
    return np.repeat(values.reshape(-1, step).mean(1), step)


def _add(
    coupling: Coupling, source: str, cost: NDArray[np.float64], saliency: dict[str, NDArray[np.float64]]
) -> None:
    """Add the cost of each input (D,) of a layer that reads ``source`` to the channels that it comes from."""
    features = sum(coupling.groups[s.group].channels * s.repeat for s in coupling.layout[source])
    per_feature, start = cost.reshape(features, -1).sum(1), 0
    for segment in coupling.layout[source]:
        channels = coupling.groups[segment.group].channels
        end = start + channels * segment.repeat
        if segment.group in saliency:
            saliency[segment.group] += per_feature[start:end].reshape(channels, -1).sum(1)
        start = end


def by_importance(saliency: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.intp]]:
    """Channels of each group, the most important first."""
    return {name: np.argsort(-values, kind="stable") for name, values in saliency.items()}
