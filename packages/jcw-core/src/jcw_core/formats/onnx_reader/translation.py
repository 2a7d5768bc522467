"""A network under construction: what every value of an ONNX graph is in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import FormatError
from jcw_core.formats.ones import Made, picking
from jcw_core.formats.onnx_reader.graph import Constant, Graph, Operator
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.operations import LAYERS, OPERATIONS, Attribute, Attributes, Shape

_LONGEST = 100
"""Characters of a node's name."""
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization")
"""Operators whose second input is a weight."""


class FollowingError(FormatError):
    """What only follows from an earlier error, and so is none of its own."""


@dataclass(frozen=True, slots=True)
class Part:
    """A value that may be part of a larger operation, so its own node is made only when something else reads it.

    Args:
        form: ``sigmoid``, ``hardsigmoid`` or ``layer``; or of the node x that is its source
            ``shifted`` (x + 3), ``clipped`` (relu6(x + 3)) or ``product`` (x relu6(x + 3)), which
            have no place of their own.
        source: a node of the network.
        operator: after which its node is named.
        layer: of a layer whose bias may yet come.
        otherwise: makes its node where it is no part of a larger one.
    """

    form: str
    source: str
    operator: Operator
    layer: Layer | None = None
    otherwise: Callable[[], str] | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution or linear layer without bias: its operation, attributes and weights by key."""

    op: str
    attributes: Mapping[str, Attribute]
    weights: Mapping[str, Constant]


@dataclass(frozen=True, slots=True)
class Grouped:
    """The planes of a node with its channels taken apart into groups, (groups, channels per group), or the other way round."""

    source: str
    groups: int
    is_turned: bool = False


@dataclass(frozen=True, slots=True)
class Padded:
    """A node with a constant around its planes, which is part of the windows that read it.

    Args:
        source: a node of the network.
        sides: (top, left, bottom, right).
        fill: the constant; None for nothing around it.
        operator: that pads, the last of several.
    """

    source: str
    sides: tuple[int, int, int, int]
    fill: float | None
    operator: Operator


@dataclass(frozen=True, slots=True)
class Lost:
    """A value that has no place, which was said where it was made."""


Value = str | Constant | Part | Grouped | Padded | Lost
"""A node of the network by name, a constant, a part of a node to come, or a node whose planes are to be shuffled or padded."""


class Translation:
    """A network under construction.

    Args:
        graph: what is translated.
        name: of the network.
    """

    def __init__(self, graph: Graph, name: str) -> None:
        self.builder = NetworkBuilder(name, graph.input_shape)
        self._batch = graph.batch
        self._values: dict[str, Value] = {**graph.constants, graph.input: self.builder.last}
        self._names = {self.builder.last: 1, "output": 1}
        self._first: dict[str, str] = {}
        self.exact = graph.exact
        self.opset = graph.opset
        self.weights: dict[str, NDArray[np.float32]] = {}

    def __setitem__(self, name: str, value: Value) -> None:
        self._values[name] = value

    def __getitem__(self, name: str) -> Value:
        if name not in self._values:
            raise FormatError(f"reads {name!r}, which is not made before it")
        value = self._values[name]
        if isinstance(value, Lost):
            raise FollowingError(f"reads {name!r}")
        return value

    def made(self, name: str) -> str:
        """The network's node for a value, ``""`` where it has none of its own."""
        value = self._values.get(name)
        return value if isinstance(value, str) else ""

    def node(self, name: str) -> str:
        """The network's node for a value, which is made if it was only a part so far."""
        value = self[name]
        assert not isinstance(value, Lost)
        if isinstance(value, Constant):
            raise FormatError(f"reads the constant {name!r}; expected a value that depends on the input")
        if isinstance(value, Grouped):
            raise FormatError(
                f"reads {name!r}, whose channels lie in groups; only a channel shuffle has a place"
            )
        if isinstance(value, Padded):
            made = self._values[name] = self._surrounded(value)
            return made
        if isinstance(value, Part):
            made = self._values[name] = self.make(value)
            return made
        return value

    def padded(self, name: str, fill: float = 0.0) -> tuple[str, tuple[int, int, int, int]]:
        """The node that a window reads, and how much of ``fill`` is to be put around it, as (top, left, bottom, right)."""
        value = self[name]
        if not isinstance(value, Padded):
            return self.node(name), (0, 0, 0, 0)
        if value.fill == fill:
            return value.source, value.sides
        if value.fill == 0:
            return self.node(name), (0, 0, 0, 0)
        raise FormatError(f"reads planes padded with {value.fill:g}; only {fill:g} has a place")

    def _surrounded(self, value: Padded) -> str:
        """Planes with zeros around them."""
        if value.fill != 0:
            raise FormatError(
                f"reads planes padded with {value.fill:g}; only 0 has a place outside of windows"
            )
        return self.append_made(
            value.operator, value.source, picking(self.shape(value.source)[1], padding=value.sides)
        )

    def append_made(self, operator: Operator, source: str, made: Made) -> str:
        """Append a convolution of ones and zeros, named after an operator."""
        weights, attributes = made
        constants = {"weight": Constant(weights.shape, weights)}
        return self.append_weighted(operator, "conv2d", source, constants, **attributes)

    def make(self, part: Part, *, bias: Constant | None = None) -> str:
        """Make the node of a part; ``bias`` is that of a layer, of one value per channel."""
        if part.layer is not None:
            layer = part.layer
            weights = layer.weights if bias is None else {**layer.weights, "bias": bias}
            has_bias = "bias" in weights
            return self.append_weighted(
                part.operator, layer.op, part.source, weights, **layer.attributes, bias=has_bias
            )
        if part.form in ("sigmoid", "hardsigmoid"):
            return self.append(part.operator, part.form, part.source)
        if part.otherwise is not None:
            return part.otherwise()
        raise FormatError(
            f"reads a step of {part.operator.name!r} ({part.operator.op}) with a constant, which has a place only "
            "inside hardswish and hardsigmoid"
        )

    def constant(self, name: str) -> Constant:
        """A value that must be a constant."""
        value = self[name]
        if not isinstance(value, Constant):
            raise FormatError(f"{name!r} depends on the input; expected a constant")
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """The values of a constant of whole numbers."""
        values = self.constant(name).values
        if values is None or values.dtype.kind not in "iu":
            raise FormatError(f"{name!r} is not a short list of whole numbers that the file holds")
        return tuple(map(int, values.reshape(-1)))

    def axes(self, operator: Operator) -> tuple[int, ...]:
        """The axes that an operator names in an attribute or, in later versions, in its second input."""
        return self.integers(operator.input(1)) if operator.has_input(1) else operator.integers("axes", ())

    def shape(self, node: str) -> Shape:
        """Shape of a node with its batch axis, as ONNX counts."""
        return (self._batch, *self.builder.shape(node))

    def append(self, operator: Operator, op: str, *sources: str, **attributes: Attribute) -> str:
        """Append a node that is named after an operator."""
        return self.builder.add(self._name(operator), op, *sources, **attributes)

    def append_weighted(
        self,
        operator: Operator,
        op: str,
        source: str,
        weights: Mapping[str, Constant],
        **attributes: Attribute,
    ) -> str:
        """Append a node with weights by key, which are kept where their values were read."""
        if op in LAYERS and operator.op in WEIGHTED:
            name = self._name(operator)
            first = self._first.setdefault(operator.input(1), name)
            shares = {"shares": first} if first != name else {}
            made = self.builder.add(name, op, source, **attributes, **shares)
        else:
            made = self.append(operator, op, source, **attributes)
        shapes = OPERATIONS[op]
        expected = {
            **shapes.parameters(self._attributes(made), [self.builder.shape(source)]),
            **shapes.buffers(self._attributes(made), [self.builder.shape(source)]),
        }
        for key, constant in weights.items() if self.exact else ():
            if constant.values is None or constant.values.dtype.kind != "f":
                raise FormatError(f"the values of its {key} are no floats that the file holds")
            if constant.values.size != prod(expected[key]):
                raise FormatError(f"its {key} has the shape {constant.dims}, expected {expected[key]}")
            array = constant.values.reshape(expected[key])
            self.weights[f"{made}.{key}"] = np.ascontiguousarray(array, dtype=np.float32)
        return made

    def _attributes(self, node: str) -> Attributes:
        return self.builder.node(node).attributes

    def _name(self, operator: Operator) -> str:
        """A free name: that of the layer whose weights it reads, or its own without signs that mean something."""
        name = operator.name
        if operator.op in WEIGHTED:
            owner, _, kind = operator.input(1).rpartition(".")
            name = owner if kind == "weight" else name.removesuffix(f"/{operator.op}")
        stem = plain_name(name) or operator.op
        free = stem
        while free in self._names:
            self._names[stem] = self._names.get(stem, 1) + 1
            free = f"{stem}_{self._names[stem]}"
        self._names[free] = 1
        return free


def plain_name(path: str) -> str:
    """A path of modules without signs that mean something: ``/layer1/layer1.0/conv1`` is ``layer1.0.conv1``."""
    parts: list[str] = []
    for part in path.split("/"):
        # Torch repeats the path to a sequence in each of its members.
        if parts and part.startswith(f"{parts[-1]}."):
            parts.pop()
        parts.append(part)
    return re.sub(r"[^A-Za-z0-9_.]+", "_", ".".join(parts)).strip("._")[:_LONGEST]
