"""A network under construction: what every value of an ONNX graph is in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jcw_core.errors import FormatError
from jcw_core.formats.onnx_reader.graph import Constant, Graph, Operator
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.operations import Attribute, Shape

_LONGEST = 100
"""Characters of a node's name."""
WEIGHTED = ("Conv", "Gemm", "MatMul", "BatchNormalization")
"""Operators whose second input is a weight."""


@dataclass(frozen=True, slots=True)
class Part:
    """A value that may be part of a larger operation, so its own node is made only when something else reads it.

    Args:
        form: ``sigmoid``, ``hardsigmoid`` or ``linear``; or of the node x that is its source
            ``shifted`` (x + 3), ``clipped`` (relu6(x + 3)) or ``product`` (x relu6(x + 3)), which
            have no place of their own.
        source: a node of the network.
        operator: after which its node is named.
        features: of ``linear``.
    """

    form: str
    source: str
    operator: Operator
    features: int = 0


Value = str | Constant | Part
"""A node of the network by name, a constant, or a part of a node to come."""


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

    def __setitem__(self, name: str, value: Value) -> None:
        self._values[name] = value

    def __getitem__(self, name: str) -> Value:
        if name not in self._values:
            raise FormatError(f"reads {name!r}, which is not made before it")
        return self._values[name]

    def node(self, name: str) -> str:
        """The network's node for a value, which is made if it was only a part so far."""
        value = self[name]
        if isinstance(value, Constant):
            raise FormatError(f"reads the constant {name!r}; expected a value that depends on the input")
        if isinstance(value, Part):
            value = self._values[name] = self.make(value)
        return value

    def make(self, part: Part, *, bias: bool = False) -> str:
        """Make the node of a part; ``bias`` is that of a linear layer."""
        if part.form == "linear":
            return self.append(part.operator, "linear", part.source, out_features=part.features, bias=bias)
        if part.form in ("sigmoid", "hardsigmoid"):
            return self.append(part.operator, part.form, part.source)
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

    def _name(self, operator: Operator) -> str:
        """A free name: that of the layer whose weights it reads, or its own without signs that mean something."""
        name = operator.name
        if operator.op in WEIGHTED:
            owner, _, kind = operator.input(1).rpartition(".")
            name = owner if kind == "weight" else name.removesuffix(f"/{operator.op}")
        stem = _plain(name) or operator.op
        free = stem
        while free in self._names:
            self._names[stem] = self._names.get(stem, 1) + 1
            free = f"{stem}_{self._names[stem]}"
        self._names[free] = 1
        return free


def _plain(path: str) -> str:
    """A path of modules without signs that mean something: ``/layer1/layer1.0/conv1`` is ``layer1.0.conv1``."""
    parts: list[str] = []
    for part in path.split("/"):
        # Torch repeats the path to a sequence in each of its members.
        if parts and part.startswith(f"{parts[-1]}."):
            parts.pop()
        parts.append(part)
    return re.sub(r"[^A-Za-z0-9_.]+", "_", ".".join(parts)).strip("._")[:_LONGEST]
