"""Cut a network, and its weights, down to one architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import ArchitectureError
from jcw_core.network.architecture import Architecture
from jcw_core.network.channel_groups import Coupling, couple
from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import CONVOLUTIONS, LAYERS, integer

Weights = Mapping[str, NDArray[np.float32]]


def shrink(network: Network, architecture: Architecture) -> Network:
    """The network with each channel group at its width; densities leave shapes alone.

    Raises:
        ArchitectureError: a group that the network does not have or that may not be cut, or a width above its channels or
            between two steps of them.
    """
    coupling = couple(network)
    for name, width in architecture.widths.items():
        group = coupling.groups.get(name)
        if group is None or width > group.channels or (group.fixed and width != group.channels):
            found = "no such group" if group is None else f"it has {group.channels} channels"
            found += " and may not be cut" if group is not None and group.fixed else ""
            raise ArchitectureError(f"{network.name}: width {width} for group {name!r}: {found}")
        if width % group.step:
            raise ArchitectureError(
                f"{network.name}: width {width} for group {name!r}: grouped convolutions read it, so it is cut by {group.step} "
                f"channels at a time; the nearest is {max(1, round(width / group.step)) * group.step}"
            )
    return Network(
        network.name, tuple(_shrunk(network, node, coupling, architecture.widths) for node in network)
    )


def _shrunk(network: Network, node: Node, coupling: Coupling, widths: Mapping[str, int]) -> Node:
    changed: dict[str, int] = {}
    channels = coupling.channels(node.name, widths)
    if node.op in CONVOLUTIONS:
        changed["out_channels"] = channels
        if (groups := integer(node.attributes, "groups")) > 1:
            inputs = network.shapes[node.inputs[0]][0]
            changed["groups"] = coupling.channels(node.inputs[0], widths) * groups // inputs
    elif node.op == "linear":
        changed["out_features"] = channels
    return replace(node, attributes={**node.attributes, **changed}) if changed else node


def kept_macs(network: Network, architecture: Architecture) -> int:
    """Multiply-accumulates for one image on the weights that an architecture keeps."""
    small = shrink(network, architecture)
    return round(sum(small.node_macs(node) * architecture.densities.get(node.name, 1.0) for node in small))


def shrink_weights(
    network: Network, architecture: Architecture, weights: Weights
) -> dict[str, NDArray[np.float32]]:
    """The parameters and statistics of ``shrink(network, architecture)``: the first channels of each group.

    Args:
        weights: by state-dict name, as in ``network.parameter_shapes`` and ``buffer_shapes``.

    Returns:
        copies, by the same names. Densities are not applied here.
    """
    coupling = couple(network)
    return take_features(network, weights, lambda node: coupling.kept(node, architecture.widths))


def take_features(
    network: Network, weights: Weights, index: Callable[[str], NDArray[np.intp]]
) -> dict[str, NDArray[np.float32]]:
    """Weights with some features of each node, in some order: those that are written, and where they are read.

    Args:
        weights: by state-dict name.
        index: positions on a node's output axis, by the node's name.

    Returns:
        copies, by the same names.
    """
    taken = {}
    for node in network:
        rows = index(node.name)
        for key in ("weight", "bias", "running_mean", "running_var"):
            array = weights.get(f"{node.name}.{key}")
            if array is None:
                continue
            array = array[rows]
            ungrouped = node.op in LAYERS and node.attributes.get("groups", 1) == 1
            if key == "weight" and ungrouped:
                array = array[:, index(node.inputs[0])]
            taken[f"{node.name}.{key}"] = np.ascontiguousarray(array)
    return taken
