"""Exact batch-norm statistics of a network or sub-network."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from jcw_core.network.graph import Network
from jcw_core.training.execution import BatchNorm, Tensors, execute
from jcw_core.training.module import Slimmable


@torch.no_grad()
def calibrate(network: Network, tensors: Tensors, batches: Iterable[Tensor]) -> dict[str, Tensor]:
    """Average the statistics of every batch, each image counting the same.

    They are new tensors: nothing that the supernet holds is read or changed.

    Args:
        network: at full width.
        tensors: parameters of a sub-network, from ``Slimmable.subnetwork``.
        batches: normalised images (n, channels, height, width).

    Returns:
        ``NAME.running_mean`` and ``NAME.running_var`` (unbiased within a batch, as in torch) of each
        batch norm.

    Raises:
        DataError: a batch of one image, where a batch norm works on 1 x 1 planes.
    """
    statistics = {
        f"{node.name}.{key}": torch.zeros_like(tensors[f"{node.name}.weight"])
        for node in network
        if node.op == "batch_norm"
        for key in ("running_mean", "running_var")
    }
    seen = 0
    for images in batches:
        seen += len(images)
        # The first batch has weight 1, and each later one its share of the images so far.
        execute(network, tensors, images, BatchNorm(statistics, momentum=len(images) / seen))
    return statistics


@torch.no_grad()
def recalibrate(module: Slimmable, batches: Iterable[Tensor]) -> None:
    """Set the whole network's running statistics to those of its present weights, as ``calibrate`` finds them."""
    running = module.statistics()
    for name, statistics in calibrate(module.network, module.subnetwork(), batches).items():
        running[name].copy_(statistics)
