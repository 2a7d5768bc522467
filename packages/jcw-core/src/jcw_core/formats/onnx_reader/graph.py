"""An ONNX file as plain operators and constants; what is not as it should be is a ``FormatError``.

Weights stay where they are: what a layer costs depends on their shapes. Only the values of small
tensors are read, such as the limits of a Clip and the target of a Reshape; tensors in further
files are not followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import FormatError, JcwError
from jcw_core.network.operations import Shape

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

_LARGEST_FILE = 2**31 - 1
"""Bytes of the largest message of the format."""
_FEW = 64
"""Elements of the largest tensor whose values are read."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor whose shape is known, and its values where it is small and lies in the file.

    Args:
        dims: its shape.
        values: None where it is large or lies elsewhere.
        precision: name of its type of numbers, such as ``float16``; ``""`` for one that is not read from a file.
    """

    dims: Shape
    values: NDArray[Any] | None = None
    precision: str = ""

    @property
    def scalar(self) -> float | None:
        """Its value if it has one element, else None."""
        return (
            float(self.values.reshape(-1)[0]) if self.values is not None and self.values.size == 1 else None
        )


@dataclass(frozen=True, slots=True)
class Operator:
    """A node of the graph.

    Args:
        name: that of its first output where the file gives none.
        op: its type, with its domain in front unless that is ONNX's own.
        inputs: names of values; ``""`` for one that is left out.
        outputs: names of values.
        attributes: integers, floats, text, tuples of them and constants; None for anything else.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def has_input(self, place: int) -> bool:
        """True unless that input is left out."""
        return len(self.inputs) > place and self.inputs[place] != ""

    def input(self, place: int) -> str:
        """The value that an input reads. Raises ``FormatError`` when it is left out."""
        if not self.has_input(place):
            raise FormatError(f"reads {list(self.inputs)}; expected input number {place + 1} as well")
        return self.inputs[place]

    def integer(self, key: str, default: int) -> int:
        """An attribute. Raises ``FormatError`` when it has another type."""
        value = self.attributes.get(key, default)
        if not isinstance(value, int):
            raise FormatError(f"{key} is {value!r}, expected a whole number")
        return value

    def integers(self, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """An attribute of as many numbers as the default, of any number if that is empty.

        Raises:
            FormatError: it has another type or length.
        """
        value = self.attributes.get(key, default)
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise FormatError(f"{key} is {value!r}, expected whole numbers")
        if default and len(value) != len(default):
            raise FormatError(f"{key} is {value!r}, expected {len(default)} numbers")
        return value


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph of one input and one output.

    Args:
        input, output: names of values.
        batch: images per call, 1 where it is left open.
        input_shape: without the batch axis.
        precision: name of the input's type of numbers, such as ``float32``.
        operators: those that the output depends on, in the file's order.
        constants: by the name of their value.
    """

    input: str
    output: str
    batch: int
    input_shape: Shape
    precision: str
    operators: tuple[Operator, ...]
    constants: Mapping[str, Constant]


def read_graph(path: Path) -> Graph:
    """Read an ONNX file.

    Raises:
        JcwError: the package onnx is not installed.
        FormatError: the file cannot be read, or has not one input of a fixed size and one output;
            the message does not name it.
    """
    graph = _parse(path).graph
    constants = {_text(tensor.name): _constant(tensor) for tensor in graph.initializer}
    # Files of old versions list weights among the inputs.
    source = _only("input", [value for value in graph.input if value.name not in constants])
    output = _text(_only("output", graph.output).name)
    batch, shape = _input_shape(source)
    precision = _precision(source.type.tensor_type.elem_type)
    return Graph(_text(source.name), output, batch, shape, precision, _needed(graph, output), constants)


def _parse(path: Path) -> ModelProto:
    try:
        from google.protobuf.message import DecodeError
        from onnx import ModelProto
    except ImportError:
        raise JcwError("ONNX files need the package onnx: pip install 'jcw-core[onnx]'") from None
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise FormatError("larger than 2 GiB; export it with its weights in further files")
        model: ModelProto = ModelProto.FromString(path.read_bytes())
        return model
    except OSError as error:
        raise FormatError(f"{error.strerror}") from None
    except DecodeError:
        raise FormatError("not an ONNX file, or damaged; export it again") from None


def _only(kind: str, values: Iterable[ValueInfoProto]) -> ValueInfoProto:
    found = list(values)
    if len(found) != 1:
        names = ", ".join(repr(value.name) for value in found[:4])
        raise FormatError(
            f"{len(found)} {kind}s ({names}), expected one; is it an ONNX file of an image network?"
        )
    return found[0]


def _input_shape(value: ValueInfoProto) -> tuple[int, Shape]:
    """Images per call and the shape of one; a size that is left open is 0 in the file."""
    batch, *shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim] or [0]
    if not shape or min(shape) < 1 or batch < 0:
        raise FormatError(
            f"input {value.name!r} has the shape {(batch, *shape)}, 0 where it is left open; only the number of images "
            "may be: export it with a fixed size"
        )
    return max(batch, 1), tuple(shape)


def _needed(graph: GraphProto, output: str) -> tuple[Operator, ...]:
    """The operators that the output depends on: a runtime runs no others."""
    wanted, found = {output}, []
    for node in reversed(graph.node):
        if not wanted.isdisjoint(node.output):
            found.append(_operator(node))
            wanted.update(node.input)
    return tuple(reversed(found))


def _operator(node: NodeProto) -> Operator:
    op, domain, outputs = _word(node.op_type), _word(node.domain), tuple(map(_text, node.output))
    return Operator(
        _text(node.name) or next(filter(None, outputs), ""),
        op if domain in ("", "ai.onnx") else f"{domain}.{op}",
        tuple(map(_text, node.input)),
        outputs,
        {_word(attribute.name): _attribute(attribute) for attribute in node.attribute},
    )


def _text(value: str | bytes) -> str:
    """A name; protobuf hands over bytes when they are no text."""
    if isinstance(value, bytes):
        raise FormatError(f"{value[:40]!r} is no name; the file is damaged, export it again")
    return value


def _word(value: str | bytes) -> str:
    """The name of an operator, a domain or an attribute, which error messages show as it is."""
    text = _text(value)
    if not text.isprintable():
        raise FormatError(f"{text[:40]!r} names no operator; the file is damaged, export it again")
    return text


def _attribute(attribute: AttributeProto) -> Any:
    kind = type(attribute)
    if attribute.type == kind.INT:
        return attribute.i
    if attribute.type == kind.FLOAT:
        return attribute.f
    if attribute.type == kind.STRING:
        return attribute.s.decode(errors="replace")
    if attribute.type == kind.INTS:
        return tuple(attribute.ints)
    if attribute.type == kind.FLOATS:
        return tuple(attribute.floats)
    return _constant(attribute.t) if attribute.type == kind.TENSOR else None


def _precision(data_type: int) -> str:
    from onnx import TensorProto

    known: dict[int, str] = {number: name.lower() for name, number in TensorProto.DataType.items()}
    found = known.get(data_type, "undefined")
    return {"float": "float32", "double": "float64"}.get(found, found)


def _constant(tensor: TensorProto) -> Constant:
    from onnx import numpy_helper

    dims = tuple(tensor.dims)
    if min(dims, default=0) < 0:
        raise FormatError(f"tensor {tensor.name!r} has the shape {dims}")
    if prod(dims) > _FEW or tensor.data_location == type(tensor).EXTERNAL:
        return Constant(dims, None, _precision(tensor.data_type))
    try:
        values = np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError(f"tensor {tensor.name!r} of shape {dims} is damaged ({error})") from None
    return Constant(dims, values if values.dtype.kind in "iuf" else None, _precision(tensor.data_type))
