"""Channel groups: which channel axes of a network must be cut together.

A convolution or linear layer opens a new axis; element-wise operations tie the axes of their inputs
(residual adds, squeeze-excite products); a grouped convolution hands its input's axis on, which then is
cut by whole groups; and so does everything else, channel by channel. Axes that nothing may cut (the input,
the output, layers that share their weights with others) are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, lcm, prod

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import NetworkError
from jcw_core.frozen import FrozenDict
from jcw_core.network.derived import derived
from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import CONVOLUTIONS, LAYERS, integer
from jcw_core.shown import count_of

_MOST_SEGMENTS = 2**20
"""Of all layouts together: a concat of concats repeats its inputs', so a small file could ask for any number."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of channels that belongs to one group.

    ``repeat`` counts the features per channel: 1 on planes, ``height * width`` after ``flatten``, and as many as a grouped
    convolution makes of each channel that it reads.
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
        reason: why the width may not change, e.g. ``"makes the network's output"``; ``""`` when it may.
        step: channels that are kept or cut together, more than one where grouped convolutions read them: the width is a
            multiple of it.
    """

    name: str
    channels: int
    layers: tuple[str, ...]
    reason: str = ""
    step: int = 1

    def __repr__(self) -> str:
        step = f" in steps of {self.step}" if self.step > 1 else ""
        fixed = f", fixed: {self.reason}" if self.fixed else ""
        return f"<ChannelGroup {self.name!r}: {self.channels} channels{step} of {count_of(len(self.layers), 'layer')}{fixed}>"

    @property
    def fixed(self) -> bool:
        """True when the width may not change."""
        return bool(self.reason)


@dataclass(frozen=True)
class Coupling:
    """The channel groups of a network, and each node's output axis written in terms of them."""

    groups: Mapping[str, ChannelGroup]
    layout: Mapping[str, tuple[Segment, ...]]

    def __repr__(self) -> str:
        return f"<Coupling: {len(self.groups)} groups, {len(self.layout)} nodes>"

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
        self.order: dict[str, int] = {}
        self.reasons: dict[str, str] = {}
        self.steps: dict[str, int] = {}

    def open(self, name: str, size: int, reason: str = "") -> tuple[Segment, ...]:
        self.order[name] = len(self.parent)
        self.parent[name], self.size[name] = name, size
        layout = (Segment(name),)
        self.fix(layout, reason)
        return layout

    def find(self, name: str) -> str:
        while self.parent[name] != name:
            # Each step halves the way of all that come after, so that a long chain is walked once.
            self.parent[name] = self.parent[self.parent[name]]
            name = self.parent[name]
        return name

    def tie(self, first: Sequence[Segment], second: Sequence[Segment], node: Node) -> None:
        """Make two layouts one, or fix both where their segments do not match."""
        shapes = [[(self.size[s.group], s.repeat) for s in layout] for layout in (first, second)]
        if shapes[0] != shapes[1]:
            self.fix((*first, *second), f"its channels meet others in {node.name!r} that lie otherwise")
            return
        for one, other in zip(first, second, strict=True):
            older, newer = sorted((self.find(one.group), self.find(other.group)), key=self.order.__getitem__)
            self.parent[newer] = older

    def align(self, layout: Sequence[Segment], features: int) -> bool:
        """Have axes cut by so many features at a time; False where a run of them is no whole number of these."""
        if any(self.size[s.group] * s.repeat % features for s in layout):
            return False
        for segment in layout:
            step = features // gcd(features, segment.repeat)
            self.steps[segment.group] = lcm(self.steps.get(segment.group, 1), step)
        return True

    def fix(self, layout: Sequence[Segment], reason: str) -> None:
        """Note why axes may not be cut; the first reason stays."""
        for segment in layout if reason else ():
            self.reasons.setdefault(segment.group, reason)


@derived
def couple(network: Network) -> Coupling:
    """Find the channel groups of a network.

    Raises:
        NetworkError: concatenations of concatenations come to more than a million pieces.
    """
    axes = _Axes()
    layout: dict[str, tuple[Segment, ...]] = {}
    segments = 0
    for node in network:
        # Counted before they are made.
        segments += sum(len(layout[name]) for name in node.inputs) or 1
        if segments > _MOST_SEGMENTS:
            raise NetworkError(
                f"{network.name}: node {node.name!r} ({node.op}): more than {_MOST_SEGMENTS} runs of channels "
                "so far, by concatenating what was concatenated; such a network cannot be pruned"
            )
        layout[node.name] = _layout(network, node, [layout[name] for name in node.inputs], axes)
        if node.name in network.shared:
            reason = f"shares its weights with {network.shared[node.name]!r}"
            axes.fix(layout[node.name], reason)
            axes.fix(layout[node.inputs[0]], f"feeds {node.name!r}, which {reason}")
    return _resolved(network, axes, layout)


def _resolved(network: Network, axes: _Axes, layout: Mapping[str, tuple[Segment, ...]]) -> Coupling:
    """The groups, with the name of its oldest axis for each axis."""
    roots = {name: axes.find(name) for name in axes.parent}
    reasons: dict[str, str] = {}
    for name, reason in axes.reasons.items():
        reasons.setdefault(roots[name], reason)
    steps: dict[str, int] = {}
    for name, step in axes.steps.items():
        steps[roots[name]] = lcm(steps.get(roots[name], 1), step)
    resolved = {
        name: tuple(Segment(roots[s.group], s.repeat) for s in segments) for name, segments in layout.items()
    }
    writers: dict[str, list[str]] = {root: [] for root in roots.values()}
    for node in network:
        if node.op in LAYERS:
            for group in dict.fromkeys(s.group for s in resolved[node.name]):
                writers[group].append(node.name)
    groups = {
        root: ChannelGroup(root, axes.size[root], tuple(layers), reasons.get(root, ""), steps.get(root, 1))
        for root, layers in writers.items()
    }
    return Coupling(FrozenDict(groups), FrozenDict(resolved))


def _layout(
    network: Network, node: Node, inputs: list[tuple[Segment, ...]], axes: _Axes
) -> tuple[Segment, ...]:
    size = network.shapes[node.name][0]
    if node.op == "input":
        return axes.open(node.name, size, "is tied to the network's input")
    if node.op == "linear":
        return axes.open(node.name, size)
    if node.op in CONVOLUTIONS:
        return _convolution_layout(network, node, inputs[0], axes)
    if node.op in ("add", "mul"):
        axes.tie(inputs[0], inputs[1], node)
        return inputs[0]
    if node.op == "concat":
        return tuple(segment for layout in inputs for segment in layout)
    if node.op == "flatten":
        area = prod(network.shapes[node.inputs[0]][1:])
        return tuple(Segment(s.group, s.repeat * area) for s in inputs[0])
    if node.op in ("slice", "channel_shuffle", "pixel_shuffle"):
        # The first channels of the input are not the first ones of what is made of it.
        axes.fix(inputs[0], f"is taken apart by channel in {node.name!r} ({node.op})")
        return axes.open(node.name, size, f"is made by channel in {node.name!r} ({node.op})")
    if node.op == "softmax":
        axes.fix(inputs[0], f"is summed over by the softmax {node.name!r}")
    if node.op == "output":
        axes.fix(inputs[0], "makes the network's output")
    return inputs[0]


def _convolution_layout(
    network: Network, node: Node, source: tuple[Segment, ...], axes: _Axes
) -> tuple[Segment, ...]:
    size, groups = network.shapes[node.name][0], integer(node.attributes, "groups")
    if groups == 1:
        return axes.open(node.name, size)
    reads, makes = network.shapes[node.inputs[0]][0] // groups, size // groups
    if makes % reads == 0 and axes.align(source, reads):
        return tuple(Segment(s.group, s.repeat * (makes // reads)) for s in source)
    axes.fix(
        source, f"feeds the grouped convolution {node.name!r}, which makes {makes} channels of every {reads}"
    )
    return axes.open(
        node.name, size, f"is a grouped convolution that makes {makes} channels of every {reads}"
    )
