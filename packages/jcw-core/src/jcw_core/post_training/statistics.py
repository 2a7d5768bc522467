"""What the layers of a network read on calibration images: a Gram matrix for each, from one pass without labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from torch import Tensor

from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import dilation_of, pair
from jcw_core.space.space import is_prunable
from jcw_core.training.execution import BatchNorm, Tensors, execute, padded


@torch.no_grad()
def gram_matrices(
    network: Network,
    tensors: Tensors,
    norm: BatchNorm,
    batches: Iterable[Tensor],
    done: Callable[[], None] = lambda: None,
) -> dict[str, Tensor]:
    """H = X X^T of each layer whose weights can be pruned, averaged over images.

    Args:
        network: with the parameters ``tensors``.
        norm: statistics of its batch norms.
        batches: normalised images (n, channels, height, width).
        done: called after each batch.

    Returns:
        float32 (D, D) by layer; D counts inputs, and for a convolution the places of its window:
        (in_channels, kernel height, kernel width), as a row of its weights has them.
    """
    sums: dict[str, Tensor] = {}
    readers = {
        node.name: [
            network[name] for name in network.consumers[node.name] if is_prunable(network, network[name])
        ]
        for node in network
    }

    def add(source: Node, value: Tensor) -> None:
        for layer in readers[source.name]:
            columns = patches(layer, value.float())
            product = (columns @ columns.T).double()
            sums[layer.name] = sums[layer.name].add_(product) if layer.name in sums else product

    seen = 0
    for images in batches:
        execute(network, tensors, images, norm, add)
        seen += len(images)
        done()
    return {name: (total / seen).float() for name, total in sums.items()}


def patches(node: Node, value: Tensor) -> Tensor:
    """What each output of a layer reads, as columns (D, outputs of all images)."""
    if node.op == "linear":
        return value.T
    kernel, stride = pair(node.attributes, "kernel_size"), pair(node.attributes, "stride")
    value, padding = padded(node, value)
    if kernel == (1, 1) and padding == (0, 0):
        value = value[:, :, :: stride[0], :: stride[1]]
        return value.transpose(0, 1).flatten(1)
    columns = F.unfold(value, kernel, dilation_of(node.attributes), padding, stride)
    return columns.transpose(0, 1).flatten(1)
