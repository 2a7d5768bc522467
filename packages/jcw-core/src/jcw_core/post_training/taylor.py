"""First-order importance of channels: by how much the loss changes when one is taken away (Molchanov et al. 2019).

A gate on a channel scales what writes it: its batch norm, or the layer itself where none follows. Without labels the
loss is the cross-entropy with the class that the network itself finds most likely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from numpy.typing import NDArray
from torch import Tensor

from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network
from jcw_core.network.operations import LAYERS
from jcw_core.post_training.importance import add_to_channels, nothing_yet
from jcw_core.training.execution import BatchNorm, execute

_IMAGES = 8
"""Images whose gradients are summed before they are squared."""


def taylor(
    network: Network, tensors: Mapping[str, Tensor], images: Sequence[Tensor]
) -> dict[str, NDArray[np.float64]]:
    """The mean over small batches of (sum of w dL/dw)^2, w being what a gate on the channel would scale.

    Args:
        network: at full width.
        tensors: parameters and statistics by state-dict name.
        images: batches (n, channels, height, width).

    Returns:
        (channels,) by group that may be cut.
    """
    gates = _gates(network)
    scaled = [name for names in gates.values() for name in names]
    parameters = {name: tensors[name].detach() for name in network.parameter_shapes}
    parameters |= {name: parameters[name].clone().requires_grad_() for name in scaled}
    norm = BatchNorm({name: tensors[name] for name in network.buffer_shapes})
    saliency = nothing_yet(network)
    chunks = [chunk for batch in images for chunk in torch.split(batch, _IMAGES)]
    for chunk in chunks:
        logits = execute(network, parameters, chunk, norm)
        loss = F.cross_entropy(logits.float(), logits.detach().argmax(1))
        gradients = dict(zip(scaled, torch.autograd.grad(loss, [parameters[n] for n in scaled]), strict=True))
        for group, change in _changes(network, gates, parameters, gradients).items():
            saliency[group] += np.square(change) / len(chunks)
    return saliency


def _gates(network: Network) -> dict[str, list[str]]:
    """What a gate on the outputs of each writing layer scales: parameters by node, batch norms where they follow."""
    gates = {}
    for node in network:
        # What is channelwise passes on channels whose own gate stands before it.
        if node.op in LAYERS and not network.is_channelwise(node):
            readers = [network[name] for name in network.consumers[node.name]]
            normed = len(readers) == 1 and readers[0].op == "batch_norm"
            where = readers[0].name if normed else node.name
            gates[where] = [n for n in (f"{where}.weight", f"{where}.bias") if n in network.parameter_shapes]
    return gates


def _changes(
    network: Network,
    gates: Mapping[str, Sequence[str]],
    parameters: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor],
) -> dict[str, NDArray[np.float64]]:
    """The first-order change of the loss by channel, over all that writes it."""
    coupling, total = couple(network), nothing_yet(network)
    for node, names in gates.items():
        products = [
            (parameters[name].detach() * gradients[name]).flatten(1 if gradients[name].dim() > 1 else 0)
            for name in names
        ]
        change = sum(p.sum(1) if p.dim() > 1 else p for p in products)
        assert isinstance(change, Tensor)
        add_to_channels(coupling, node, change.double().numpy(), total)
    return total
