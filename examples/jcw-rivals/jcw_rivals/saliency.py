"""First-order Taylor saliency of channels: how much the loss would change without them (Molchanov et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows

from jcw_core.network.channel_groups import couple
from jcw_core.training.batches import Batch
from jcw_core.training.module import Slimmable
from jcw_rivals.setting import Floats


def saliencies(module: Slimmable, batches: Iterable[Batch]) -> Mapping[str, Floats]:
    """Of each channel of each group: the sum over batches of |gamma dL/dgamma + beta dL/dbeta|, and over its layers.

    Args:
        module: the whole network, trained; its gradients are lost.
        batches: training images.

    Returns:
        (channels,) by group; a group that no batch norm follows has zeros.
    """
    coupling, network = couple(module.network), module.network
    found = {name: np.zeros(group.channels) for name, group in coupling.groups.items()}
    module.eval()
    for images, labels in batches:
        module.zero_grad(set_to_none=True)
        loss = F.cross_entropy(module(images).float(), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        for node in network:
            layout = coupling.layout[node.name]
            if node.op == "batch_norm" and len(layout) == 1 and layout[0].repeat == 1:
                found[layout[0].group] += _of(module, node.name)
    return found


@torch.no_grad()
def _of(module: Slimmable, norm: str) -> Floats:
    terms = [module.get_parameter(f"{norm}.{key}") for key in ("weight", "bias")]
    total = sum(term * term.grad for term in terms if term.grad is not None)
    assert isinstance(total, torch.Tensor)
    return total.abs().double().numpy()
