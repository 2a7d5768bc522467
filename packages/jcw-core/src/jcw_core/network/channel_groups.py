"""Channel groups: which channel axes of a network must be cut together.

A convolution or linear layer opens a new axis; element-wise operations tie the axes of their inputs
(residual adds, squeeze-excite products); everything else hands its input's axis on. Axes that
nothing may cut (the input, the output, grouped convolutions that are not depthwise) are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import integer


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of channels that belongs to one group.

    ``repeat`` counts the features per channel: 1 on planes, ``height * width`` after ``flatten``.
    """

    group: str
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class ChannelGroup:
    """Channel axes of one width.

    Args:
        name: the first layer that writes the axis.
        channels: its full width.
        layers: every convolution or linear layer that writes it, depthwise ones included.
        fixed: True when the width may not change.
    """

    name: str
    channels: int
    layers: tuple[str, ...]
    fixed: bool


@dataclass(frozen=True)
class Coupling:
    """The channel groups of a network, and each node's output axis written in terms of them."""

    groups: Mapping[str, ChannelGroup]
    layout: Mapping[str, tuple[Segment, ...]]

    def channels(self, node: str, widths: Mapping[str, int]) -> int:
        """Channels (or features) of ``node`` when the groups have ``widths``; absent is full width."""
        return sum(self._width(s.group, widths) * s.repeat for s in self.layout[node])

    def kept(self, node: str, widths: Mapping[str, int]) -> NDArray[np.intp]:
        """Indices into the full output axis of ``node`` that remain: the first of each group."""
        parts, start = [], 0
        for segment in self.layout[node]:
            parts.append(start + np.arange(self._width(segment.group, widths) * segment.repeat))
            start += self.groups[segment.group].channels * segment.repeat
        return np.concatenate(parts).astype(np.intp)

    def _width(self, group: str, widths: Mapping[str, int]) -> int:
        return widths.get(group, self.groups[group].channels)


class _Axes:
    """Union-find over channel axes, named by the node that opens them, in order of creation."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}
        self.size: dict[str, int] = {}
        self.fixed: set[str] = set()

    def open(self, name: str, size: int, *, fixed: bool = False) -> tuple[Segment, ...]:
        self.parent[name], self.size[name] = name, size
        if fixed:
            self.fixed.add(name)
        return (Segment(name),)

    def find(self, name: str) -> str:
        while self.parent[name] != name:
            name = self.parent[name]
        return name

    def tie(self, first: Sequence[Segment], second: Sequence[Segment]) -> None:
        """Make two layouts one, or fix both where their segments do not match."""
        shapes = [[(self.size[s.group], s.repeat) for s in layout] for layout in (first, second)]
        if shapes[0] != shapes[1]:
            self.fix((*first, *second))
            return
        order = {name: index for index, name in enumerate(self.parent)}
        for one, other in zip(first, second, strict=True):
            older, newer = sorted((self.find(one.group), self.find(other.group)), key=order.__getitem__)
            self.parent[newer] = older

    def fix(self, layout: Sequence[Segment]) -> None:
        self.fixed.update(segment.group for segment in layout)


@lru_cache(maxsize=64)
def couple(network: Network) -> Coupling:
    """Find the channel groups of a network."""
    axes = _Axes()
    layout: dict[str, tuple[Segment, ...]] = {}
    for node in network:
        layout[node.name] = _layout(network, node, [layout[name] for name in node.inputs], axes)
    fixed = {axes.find(name) for name in axes.fixed}
    roots = {name: axes.find(name) for name in axes.parent}
    resolved = {
        name: tuple(Segment(roots[s.group], s.repeat) for s in segments) for name, segments in layout.items()
    }
    groups = {
        root: ChannelGroup(root, axes.size[root], _layers(network, resolved, root), root in fixed)
        for root in dict.fromkeys(roots.values())
    }
    return Coupling(groups, resolved)


def _layout(
    network: Network, node: Node, inputs: list[tuple[Segment, ...]], axes: _Axes
) -> tuple[Segment, ...]:
    size = network.shapes[node.name][0]
    if node.op == "input":
        return axes.open(node.name, size, fixed=True)
    if node.op == "linear":
        return axes.open(node.name, size)
    if node.op == "conv2d":
        if integer(node.attributes, "groups") == 1:
            return axes.open(node.name, size)
        if network.is_depthwise(node):
            return inputs[0]
        axes.fix(inputs[0])
        return axes.open(node.name, size, fixed=True)
    if node.op in ("add", "mul"):
        axes.tie(inputs[0], inputs[1])
        return inputs[0]
    if node.op == "concat":
        return tuple(segment for layout in inputs for segment in layout)
    if node.op == "flatten":
        area = prod(network.shapes[node.inputs[0]][1:])
        return tuple(Segment(s.group, s.repeat * area) for s in inputs[0])
    if node.op == "output":
        axes.fix(inputs[0])
    return inputs[0]


def _layers(network: Network, layout: Mapping[str, tuple[Segment, ...]], group: str) -> tuple[str, ...]:
    return tuple(
        node.name
        for node in network
        if node.op in ("conv2d", "linear") and any(s.group == group for s in layout[node.name])
    )
