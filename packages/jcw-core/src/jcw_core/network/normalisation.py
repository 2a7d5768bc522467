"""``with_normalisation``: a model that takes pixels as they are in a file, and does the rest itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.graph import Network, Node
from jcw_core.network.image_input import PIXELS
from jcw_core.network.model import Model
from jcw_core.network.operations import sides

_NAME = "normalise"


def with_normalisation(model: Model) -> Model:
    """The same outputs, from pixels of 0 to 255 in place of (pixel / 255 - mean) / std.

    Where all that reads the input are convolutions without padding, their weights take it in. One that pads does so with
    zeros, which stand for the mean before normalisation and for black after it: there the input is normalised by a
    step of its own, a batch norm.

    Args:
        model: with ``images``, which says how its input was normalised.
    """
    assert model.images is not None
    mean, std = (np.array(values, dtype=np.float64) for values in (model.images.mean, model.images.std))
    scale, shift = 1 / (PIXELS * std), -mean / std
    network = model.network
    readers = [node for node in network if network.input.name in node.inputs]
    takes_in = all(node.op == "conv2d" and not any(sides(node.attributes)) for node in readers)
    made = _folded(model, readers, scale, shift) if takes_in else _with_step(model, scale, shift)
    channels = len(mean)
    return replace(made, images=replace(model.images, mean=(0.0,) * channels, std=(1 / PIXELS,) * channels))


def _folded(
    model: Model, readers: list[Node], scale: NDArray[np.float64], shift: NDArray[np.float64]
) -> Model:
    """Put the scale into the weights of ``readers``, and the shift into their biases."""
    weights = dict(model.weights)
    for node in readers:
        weight = weights[f"{node.name}.weight"].astype(np.float64)
        outputs, inputs = weight.shape[:2]
        # Each output of a group of channels reads that group's alone.
        groups = np.arange(outputs) * (len(scale) // inputs) // outputs
        read = groups[:, None] * inputs + np.arange(inputs)
        bias = (weight * shift[read][:, :, None, None]).sum(axis=(1, 2, 3))
        if node.attributes["bias"]:
            bias += weights[f"{node.name}.bias"]
        weights[f"{node.name}.weight"] = (weight * scale[read][:, :, None, None]).astype(np.float32)
        weights[f"{node.name}.bias"] = bias.astype(np.float32)
    names = {node.name for node in readers}
    nodes = [
        Node(node.name, node.op, node.inputs, {**node.attributes, "bias": True})
        if node.name in names
        else node
        for node in model.network
    ]
    return replace(model, network=Network(model.network.name, tuple(nodes)), weights=weights)


def _with_step(model: Model, scale: NDArray[np.float64], shift: NDArray[np.float64]) -> Model:
    network = model.network
    name = next(
        n for n in (_NAME + "_" * count for count in range(len(network.shapes) + 1)) if n not in network
    )
    nodes = []
    for node in network:
        inputs = tuple(name if source == network.input.name else source for source in node.inputs)
        nodes.append(Node(node.name, node.op, inputs, node.attributes))
        if node.op == "input":
            nodes.append(Node(name, "batch_norm", (node.name,), {"eps": 0.0}))
    step = {
        "weight": scale,
        "bias": shift,
        "running_mean": np.zeros_like(scale),
        "running_var": np.ones_like(scale),
    }
    weights = {
        **model.weights,
        **{f"{name}.{key}": values.astype(np.float32) for key, values in step.items()},
    }
    return replace(model, network=Network(network.name, tuple(nodes)), weights=weights)
