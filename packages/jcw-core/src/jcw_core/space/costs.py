"""What architectures cost beside time: multiply-accumulates, kept weights, bytes of a model file.

All take a space and values (n, dimensions), and return float64 (n,).
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.graph import Node
from jcw_core.network.operations import LAYERS
from jcw_core.network.weight_groups import GROUP_SIZE
from jcw_core.space.space import Population, SearchSpace

Floats = NDArray[np.float64]

_DENSE_ABOVE = 31 / 32
"""Density above which a model file holds the zeros instead of a bit for each weight group."""


def macs(space: SearchSpace, population: Population) -> Floats:
    """Multiply-accumulates for one image on the weights that are kept, as ``kept_macs`` counts them."""
    total = np.zeros(len(population))
    for node in _layers(space):
        makes = node.inputs[0] if node.op == "conv_transpose2d" else node.name
        positions = prod(space.network.shapes[makes][1:])
        whole = _positions(space, node, population) * space.channels(population, node.name)
        total += positions * whole * space.density(population, node.name)
    return total


def weights(space: SearchSpace, population: Population) -> Floats:
    """Weights of convolutions and linear layers that are kept, without their biases."""
    total = np.zeros(len(population))
    for node in _layers(space):
        total += _kept(space, node, population)[0]
    return total


def model_bytes(space: SearchSpace, population: Population) -> Floats:
    """Bytes of the float32 weights in a model file: kept weights, the bits that say which, and biases."""
    total = np.zeros(len(population))
    for node in _layers(space):
        kept, groups, density = _kept(space, node, population)
        total += 4 * kept + 4 * space.channels(population, node.name)
        total += np.where(density > _DENSE_ABOVE, 0, np.ceil(groups / 8))
    return total


def _layers(space: SearchSpace) -> list[Node]:
    return [node for node in space.network if node.op in LAYERS]


def _positions(space: SearchSpace, node: Node, population: Population) -> Floats:
    """Weights of each output channel, (n,)."""
    shape = space.network.parameter_shapes[f"{node.name}.weight"]
    if node.attributes.get("groups", 1) != 1:
        return np.full(len(population), float(prod(shape[1:])))
    inputs = space.channels(population, node.inputs[0])
    return inputs * float(prod(shape[2:]))


def _kept(space: SearchSpace, node: Node, population: Population) -> tuple[Floats, Floats, Floats]:
    """Kept weights, weight groups and density of a layer, each (n,)."""
    out, positions = space.channels(population, node.name), _positions(space, node, population)
    density = space.density(population, node.name)
    rows = np.ceil(out / GROUP_SIZE)
    groups = rows * positions
    kept = np.clip(np.floor(density * groups + 0.5), 1, groups)
    # A group has fewer than four weights, on average, where the channels are no multiple of four.
    return kept * (out / rows), groups, kept / groups
