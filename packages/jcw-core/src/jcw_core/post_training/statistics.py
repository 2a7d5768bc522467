"""What the layers of a network read on calibration images: a Gram matrix for each, from one pass without labels.

Of a large layer it is the diagonal alone, see ``has_matrix`` in ``removal``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from torch import Tensor

from jcw_core.errors import within_memory
from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import dilation_of, pair
from jcw_core.post_training.removal import has_matrix
from jcw_core.space.space import is_prunable
from jcw_core.training.execution import BatchNorm, Tensors, execute, padded

_BYTES = 2**28
"""Most memory for the columns of a layer that are multiplied at a time."""


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
        float32 (D, D) by layer, (D,) of large ones; D counts inputs, and for a convolution the places of its window:
        (in_channels, kernel height, kernel width), as a row of its weights has them.

    Raises:
        JcwError: memory does not suffice; the layer is named.
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
            with within_memory(f"layer {layer.name!r}, whose inputs are multiplied with each other"):
                product = _product(network, layer, value.float())
                sums[layer.name] = sums[layer.name].add_(product) if layer.name in sums else product

    seen = 0
    for images in batches:
        execute(network, tensors, images, norm, add)
        seen += len(images)
        done()
    return {name: (sums.pop(name) / seen).float() for name in list(sums)}


def is_large(network: Network, layer: str) -> bool:
    """Whether a layer's Gram matrix is known by its diagonal alone."""
    outputs, *inputs = network.parameter_shapes[f"{layer}.weight"]
    return not has_matrix(outputs, prod(inputs))


def _product(network: Network, layer: Node, value: Tensor) -> Tensor:
    """X X^T of what a layer reads (n, ...), or its diagonal, in float64; some images at a time."""
    inputs = prod(network.parameter_shapes[f"{layer.name}.weight"][1:])
    outputs = prod(network.shapes[layer.name][1:])
    at_a_time = max(1, _BYTES // (4 * inputs * outputs))
    large, total = is_large(network, layer.name), torch.zeros((), dtype=torch.float64)
    for images in torch.split(value, at_a_time):
        columns = patches(layer, images)
        product = columns.square().sum(1) if large else columns @ columns.T
        total = total + product.double()
    return total


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
