"""Which layers stay whole whatever a search chooses, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import lcm

from jcw_core.frozen import FrozenDict
from jcw_core.network.channel_groups import ChannelGroup, couple
from jcw_core.network.derived import derived
from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import CONVOLUTIONS, LAYERS
from jcw_core.network.weight_groups import GROUP_SIZE


def fixed_layers(network: Network, step: int = GROUP_SIZE) -> dict[str, str]:
    """The layers that keep all their channels.

    Args:
        network: at full width.
        step: channels between two widths of a search space.

    Returns:
        the reason by layer, in the network's order, e.g. ``"makes the network's output"``.
    """
    groups, layout = couple(network).groups, couple(network).layout
    reasons = {
        name: group.reason or _too_narrow(group, lcm(step, group.step)) for name, group in groups.items()
    }
    found = {}
    for layer in layers_of(network):
        own = [reasons[segment.group] for segment in layout[layer]]
        if all(own):
            found[layer] = own[0]
    return found


def _too_narrow(group: ChannelGroup, step: int) -> str:
    return f"has {group.channels} channels, one step of {step}" if group.channels <= step else ""


def unpruned_layers(network: Network) -> dict[str, str]:
    """The layers that keep all the weights of the channels that they keep.

    Returns:
        the reason by layer, in the network's order, e.g. ``"is depthwise"``.
    """
    reasons = {name: why_unpruned(network, network[name]) for name in layers_of(network)}
    return {name: reason for name, reason in reasons.items() if reason}


def why_unpruned(network: Network, node: Node) -> str:
    """Why a convolution or linear layer keeps all its weights; ``""`` when it may be pruned."""
    if node.name in network.shared:
        return f"shares its weights with {network.shared[node.name]!r}"
    if node.op == "linear":
        return ""
    if node.attributes["groups"] != 1:
        return "is depthwise" if network.is_depthwise(node) else "is a grouped convolution"
    if node.op == "conv_transpose2d":
        return "is a transposed convolution"
    if node.name not in _first_convolutions(network) or node.attributes.get("pruned_first", False):
        return ""
    return "is the first convolution"


def with_pruned_first(network: Network) -> Network:
    """The network whose first convolutions may be pruned, too: few weights see the image, and much is paid for each."""
    first = _first_convolutions(network)
    return replace(
        network,
        nodes=tuple(
            replace(node, attributes=FrozenDict({**node.attributes, "pruned_first": True}))
            if node.name in first and node.op == "conv2d"
            else node
            for node in network
        ),
    )


@derived
def _first_convolutions(network: Network) -> frozenset[str]:
    """Convolutions that are the first on every path from the input; batch norm or pooling may precede them."""
    first, behind = set(), set[str]()
    for node in network:
        convolution = node.op in CONVOLUTIONS
        if convolution and behind.isdisjoint(node.inputs):
            first.add(node.name)
        if convolution or not behind.isdisjoint(node.inputs):
            behind.add(node.name)
    return frozenset(first)


def layers_of(network: Network) -> tuple[str, ...]:
    """The layers that have widths and weights: convolutions and linear layers, in the network's order."""
    return tuple(node.name for node in network if node.op in LAYERS)


def in_words(fixed: Mapping[str, str], unpruned: Mapping[str, str]) -> list[str]:
    """What stays whole, a line for each reason with its layers.

    Args:
        fixed: of ``fixed_layers``.
        unpruned: of ``unpruned_layers``.
    """
    return [
        f"{_some(layers)}: all {kept}, as {'each' if len(layers) > 1 else 'it'} {reason}"
        for kept, reasons in (("channels", fixed), ("weights", unpruned))
        for reason, layers in _by_reason(reasons).items()
    ]


def _by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for layer, reason in reasons.items():
        found.setdefault(reason, []).append(layer)
    return found


def _some(layers: list[str], most: int = 4) -> str:
    shown = ", ".join(layers[:most])
    return shown if len(layers) <= most else f"{shown} and {len(layers) - most} more"
