"""``Network``: a small immutable graph from which everything else is derived.

Nodes stand in topological order; shapes are inferred, never stored. Node names double as the
prefixes of parameter names, so that the state dicts of torchvision load as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from jcw_core.errors import NetworkError
from jcw_core.frozen import FrozenDict
from jcw_core.network.node import LARGEST, Node, check_name
from jcw_core.network.operations import CONVOLUTIONS, LAYERS, OPERATIONS, Shape
from jcw_core.shown import html_table

__all__ = ["FORMAT", "Network", "Node"]

FORMAT = "jcw-network/1"


@dataclass(frozen=True)
class Network:
    """A convolutional network as a graph.

    Args:
        name: what people call it, e.g. ``"resnet18"``.
        nodes: in topological order; exactly one ``input`` node and one ``output`` node.

    Raises:
        NetworkError: a name twice, an input that is not defined before its use, shapes that clash.
    """

    name: str
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        check_name("network", self.name)
        seen: set[str] = set()
        for name in (self.name, *(node.name for node in self.nodes)):
            if any("\ud800" <= c <= "\udfff" for c in name):  # no file could hold it
                raise NetworkError(f"{self.name!r}: the name {name!r} is not in characters; give another")
        for node in self.nodes:
            if node.name in seen:
                raise NetworkError(f"{self.name}: node name {node.name!r} is used twice")
            missing = [name for name in node.inputs if name not in seen]
            if missing:
                raise NetworkError(
                    f"{self.name}: node {node.name!r} reads {missing[0]!r}, which is not defined before it"
                )
            seen.add(node.name)
        for op in ("input", "output"):
            count = sum(node.op == op for node in self.nodes)
            if count != 1:
                raise NetworkError(f"{self.name}: {count} {op} nodes, expected one")
        self.shapes  # noqa: B018  infers, so that a network that exists is consistent
        self.shared  # noqa: B018  likewise

    def __repr__(self) -> str:
        return (
            f"<Network {self.name!r}: {len(self.nodes)} nodes, "
            f"{self.input_shape} -> {self.shapes[self.output.name]}>"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the layers that have weights, with their outputs and multiply-accumulates."""
        title = f"{self!r}, {self.parameters:,} parameters, {self.macs:,} MACs"
        rows = [
            (n.name, n.op, " x ".join(map(str, self.shapes[n.name])), f"{self.node_macs(n):,}")
            for n in self.nodes
            if n.op in LAYERS
        ]
        return html_table(title, ("layer", "operation", "output", "MACs"), rows)

    def __reduce__(self) -> tuple[type, tuple[str, tuple[Node, ...]]]:
        # Not what was worked out and kept: another process hashes the same names to other numbers.
        return type(self), (self.name, self.nodes)

    def __getitem__(self, name: str) -> Node:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Kept, because the nodes are hashed one by one.
        return hash((self.name, self.nodes))

    @cached_property
    def derived(self) -> dict[Callable[[Network], Any], Any]:
        """What functions made of this network and kept, see ``jcw_core.network.derived``; no part of its value."""
        return {}

    @cached_property
    def _by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def shapes(self) -> Mapping[str, Shape]:
        """Output shape of every node, without the batch axis."""
        shapes: dict[str, Shape] = {}
        for node in self.nodes:
            inputs = [shapes[name] for name in node.inputs]
            try:
                shapes[node.name] = OPERATIONS[node.op].shape(node.attributes, inputs)
                if max(shapes[node.name]) > LARGEST:
                    raise NetworkError(f"makes {shapes[node.name]}, more than {LARGEST} along one axis")
            except NetworkError as error:
                raise NetworkError(f"{self.name}: node {node.name!r} ({node.op}): {error}") from None
        return FrozenDict(shapes)

    @cached_property
    def consumers(self) -> Mapping[str, tuple[str, ...]]:
        """For every node, the names of the nodes that read it."""
        readers: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in node.inputs:
                readers[name].append(node.name)
        return {name: tuple(found) for name, found in readers.items()}

    def resized(self, height: int, width: int) -> Network:
        """The same nodes on images of another size.

        Raises:
            NetworkError: a node cannot take what it would get.
        """
        size = {"shape": (self.input_shape[0], height, width)}
        nodes = (replace(node, attributes=size) if node.op == "input" else node for node in self.nodes)
        return Network(self.name, tuple(nodes))

    @cached_property
    def shared(self) -> Mapping[str, str]:
        """Every layer that has the same weights as another one, with a name of such another one.

        A module that is called twice makes two layers of one weight. Each holds its own copy, and both stay
        whole, channels and weights: what one of them can spare the other may need.
        """
        found: dict[str, str] = {}
        for node in self.nodes:
            other = self._by_name.get(str(node.attributes.get("shares", "")))
            if "shares" not in node.attributes:
                continue
            if other is None or other.op != node.op or self._weight_shape(other) != self._weight_shape(node):
                raise NetworkError(
                    f"{self.name}: node {node.name!r} ({node.op}): shares the weights of "
                    f"{node.attributes['shares']!r}, which is no {node.op} with weights of the same shape"
                )
            found.setdefault(other.name, node.name)
            found[node.name] = other.name
        return FrozenDict(found)

    def _weight_shape(self, node: Node) -> Shape:
        return OPERATIONS[node.op].parameters(node.attributes, self.input_shapes(node))["weight"]

    @cached_property
    def input(self) -> Node:
        """The input node."""
        return next(node for node in self.nodes if node.op == "input")

    @cached_property
    def output(self) -> Node:
        """The output node."""
        return next(node for node in self.nodes if node.op == "output")

    @property
    def input_shape(self) -> Shape:
        """Shape of the input, ``(channels, height, width)``."""
        return self.shapes[self.input.name]

    @property
    def num_classes(self) -> int:
        """Size of the flat output."""
        return prod(self.shapes[self.output.name])

    def input_shapes(self, node: Node) -> list[Shape]:
        """Shapes of the inputs of ``node``."""
        return [self.shapes[name] for name in node.inputs]

    def is_channelwise(self, node: Node) -> bool:
        """True for a convolution that is grouped channel by channel, with one output for each input."""
        if node.op not in CONVOLUTIONS:
            return False
        inputs = self.shapes[node.inputs[0]][0]
        return node.attributes["groups"] == node.attributes["out_channels"] == inputs != 1

    def is_depthwise(self, node: Node) -> bool:
        """True for a ``conv2d`` that is channelwise; a transposed convolution may be that as well."""
        return node.op == "conv2d" and self.is_channelwise(node)

    @cached_property
    def parameter_shapes(self) -> Mapping[str, Shape]:
        """Shape of every trainable parameter by its state-dict name, e.g. ``conv1.weight``."""
        return self._arrays("parameters")

    @cached_property
    def buffer_shapes(self) -> Mapping[str, Shape]:
        """Shape of every batch-norm statistic by its state-dict name."""
        return self._arrays("buffers")

    def _arrays(self, kind: str) -> Mapping[str, Shape]:
        return {
            f"{node.name}.{key}": shape
            for node in self.nodes
            for key, shape in getattr(OPERATIONS[node.op], kind)(
                node.attributes, self.input_shapes(node)
            ).items()
        }

    @property
    def parameters(self) -> int:
        """Number of trainable parameters."""
        return sum(prod(shape) for shape in self.parameter_shapes.values())

    def node_macs(self, node: Node) -> int:
        """Multiply-accumulates of one node for one image, at density 1."""
        return OPERATIONS[node.op].macs(node.attributes, self.input_shapes(node))

    @property
    def macs(self) -> int:
        """Multiply-accumulates for one image, at density 1."""
        return sum(self.node_macs(node) for node in self.nodes)

    def to_json(self) -> str:
        """The network as one line of JSON; ``from_json`` reads it back."""
        nodes = [
            {
                "name": n.name,
                "op": n.op,
                "inputs": list(n.inputs),
                **({"attributes": dict(n.attributes)} if n.attributes else {}),
            }
            for n in self.nodes
        ]
        return json.dumps({"format": FORMAT, "name": self.name, "nodes": nodes})

    @classmethod
    def from_json(cls, text: str) -> Network:
        """Read what ``to_json`` wrote.

        Raises:
            NetworkError: the text is not JSON, not a network, or not a consistent one.
        """
        try:
            document = json.loads(text)
            if document["format"] != FORMAT:
                raise NetworkError(f"format is {document['format']!r}, expected {FORMAT!r}")
            nodes = tuple(
                Node(
                    str(n["name"]), str(n["op"]), tuple(map(str, n["inputs"])), dict(n.get("attributes", {}))
                )
                for n in document["nodes"]
            )
            return cls(str(document["name"]), nodes)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise NetworkError(f"not a {FORMAT} document: {error!r}") from None

    @classmethod
    def read(cls, path: Path) -> Network:
        """Read a JSON file.

        Raises:
            NetworkError: as ``from_json``, or the file cannot be read; the message names it.
        """
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, NetworkError) as error:
            raise NetworkError(f"{path}: {error}") from None
