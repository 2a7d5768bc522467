"""``Network``: a small immutable graph from which everything else is derived.

Nodes stand in topological order; shapes are inferred, never stored. Node names double as the
prefixes of parameter names, so that the state dicts of torchvision load as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jcw_core.errors import NetworkError
from jcw_core.network.operations import OPERATIONS, Attribute, Attributes, Shape

FORMAT = "jcw-network/1"

_LARGEST = 2**24
"""Channels, pixels and features stay below it, so that no damaged file asks for absurd arrays."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: its name, kind, the names of the nodes it reads, and plain attributes."""

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    attributes: Attributes = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        operation = OPERATIONS.get(self.op)
        if operation is None:
            raise NetworkError(
                f"node {self.name!r}: unknown operation {self.op!r}; known are {', '.join(OPERATIONS)}"
            )
        if set(self.attributes) != set(operation.attributes):
            raise NetworkError(
                f"node {self.name!r} ({self.op}): attributes are {sorted(self.attributes)}, "
                f"expected {sorted(operation.attributes)}"
            )
        if operation.arity is not None and len(self.inputs) != operation.arity:
            raise NetworkError(
                f"node {self.name!r} ({self.op}): {len(self.inputs)} inputs, expected {operation.arity}"
            )
        if operation.arity is None and not self.inputs:
            raise NetworkError(f"node {self.name!r} ({self.op}): no inputs, expected one or more")
        checked = {
            key: _checked(self, key, kind, self.attributes[key]) for key, kind in operation.attributes.items()
        }
        object.__setattr__(self, "attributes", MappingProxyType(checked))

    def __hash__(self) -> int:
        return hash((self.name, self.op, self.inputs, tuple(self.attributes.items())))


def _checked(node: Node, key: str, kind: str, value: Any) -> Attribute:
    """Return ``value`` in its canonical type, or raise ``NetworkError``."""
    if kind == "bool" and isinstance(value, bool):
        return value
    if (
        kind == "float"
        and isinstance(value, (int, float))
        and not isinstance(value, bool)
        and 0 <= value < 1e9
    ):
        return float(value)
    lowest = 0 if key == "padding" else 1
    if kind == "int" and _is_size(value, lowest):
        return int(value)
    if kind in ("pair", "shape") and isinstance(value, (tuple, list)):
        length = 2 if kind == "pair" else len(value)
        if len(value) == length > 0 and all(_is_size(v, lowest) for v in value):
            return tuple(int(v) for v in value)
    raise NetworkError(f"node {node.name!r} ({node.op}): {key} = {value!r} is not a valid {kind}")


def _is_size(value: Any, lowest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= _LARGEST


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
        seen: set[str] = set()
        for name in (self.name, *(node.name for node in self.nodes)):
            if any("\ud800" <= c <= "\udfff" for c in name):  # no file could hold it
                raise NetworkError(f"{self.name!r}: the name {name!r} is not in characters; give another")
        for node in self.nodes:
            if node.name in seen or not node.name:
                raise NetworkError(f"{self.name}: node name {node.name!r} is empty or used twice")
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
        # Kept, because what is derived from a network is looked up by it, often once per layer.
        return hash((self.name, self.nodes))

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
            except NetworkError as error:
                raise NetworkError(f"{self.name}: node {node.name!r} ({node.op}): {error}") from None
        return MappingProxyType(shapes)

    @cached_property
    def consumers(self) -> Mapping[str, tuple[str, ...]]:
        """For every node, the names of the nodes that read it."""
        readers: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in node.inputs:
                readers[name].append(node.name)
        return {name: tuple(found) for name, found in readers.items()}

    @property
    def input(self) -> Node:
        """The input node."""
        return next(node for node in self.nodes if node.op == "input")

    @property
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

    def is_depthwise(self, node: Node) -> bool:
        """True for a convolution that is grouped channel by channel, with one output for each input."""
        if node.op != "conv2d":
            return False
        inputs = self.shapes[node.inputs[0]][0]
        return node.attributes["groups"] == node.attributes["out_channels"] == inputs != 1

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
