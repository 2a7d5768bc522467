"""An ONNX file as plain operators and constants; what is not as it should be is a ``FormatError``.

Where only a network's cost is asked for, weights stay where they are: what a layer costs depends on their
shapes. Then only the values of small tensors are read, such as the limits of a Clip and the target of a
Reshape, and tensors in further files are not followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import FormatError
from jcw_core.formats.onnx_reader.file import needed, opset_of
from jcw_core.network.operations import Shape

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

_FEW = 64
"""Elements of the largest tensor whose values are read."""
_SHOWN = 4
"""Names that an error lists."""


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
        input: name of a value.
        outputs: names of one value or more.
        batch: images per call, 1 where it is left open.
        input_shape: without the batch axis.
        precision: name of the input's type of numbers, such as ``float32``.
        operators: those that the output depends on, in the file's order.
        constants: by the name of their value.
        exact: whether the values of all tensors were read.
        opset: the version of ONNX's operators.
    """

    input: str
    outputs: tuple[str, ...]
    batch: int
    input_shape: Shape
    precision: str
    operators: tuple[Operator, ...]
    constants: Mapping[str, Constant]
    exact: bool
    opset: int


def read_graph(
    file: ModelProto,
    shape: Sequence[int] | None = None,
    outputs: Sequence[str] = (),
    folder: Path | None = None,
) -> Graph:
    """The graph of an ONNX file.

    Args:
        file: its content.
        shape: of the input with its batch axis, for sizes that the file leaves open.
        outputs: values at which to end, where what follows is left outside; the file's only output by default.
        folder: where the file lies, to read the values of all tensors, those in further files beside it as well; None where
            only costs are asked for.

    Raises:
        FormatError: the file has not one input of a fixed size and one output, or a tensor is damaged;
            the message does not name it.
    """
    graph = file.graph
    constants = {_text(tensor.name): _constant(tensor, folder) for tensor in graph.initializer}
    # Files of old versions list weights among the inputs.
    source = _only("input", [value for value in graph.input if value.name not in constants])
    ends = _outputs(graph, outputs)
    batch, image = _input_shape(source, shape)
    return Graph(
        input=_text(source.name),
        outputs=ends,
        batch=batch,
        input_shape=image,
        precision=_precision(source.type.tensor_type.elem_type),
        operators=tuple(_operator(graph.node[place], folder) for place in needed(graph, ends)),
        constants=constants,
        exact=folder is not None,
        opset=opset_of(file),
    )


def _only(kind: str, values: Iterable[ValueInfoProto]) -> ValueInfoProto:
    found = list(values)
    if len(found) != 1:
        names = ", ".join(repr(value.name) for value in found[:_SHOWN])
        raise FormatError(
            f"{len(found)} {kind}s ({names}{', ...' if len(found) > _SHOWN else ''}), expected one; is it an ONNX file of an "
            "image network? Outputs are chosen by --outputs NAME,NAME or [network] outputs"
        )
    return found[0]


def _input_shape(value: ValueInfoProto, wanted: Sequence[int] | None) -> tuple[int, Shape]:
    """Images per call and the shape of one; a size that is left open is 0 or -1 in the file."""
    found = [dim.dim_value for dim in value.type.tensor_type.shape.dim] or [0]
    if wanted is not None:
        if len(wanted) != len(found) or any(n > 0 and n != w for n, w in zip(found, wanted, strict=False)):
            raise FormatError(
                f"input {value.name!r} has the shape {tuple(found)}, 0 or -1 where it is left open; "
                f"the shape {tuple(wanted)} does not go with it"
            )
        found = list(wanted)
    batch, *shape = found
    if not shape or min(shape) < 1 or batch < -1:
        raise FormatError(
            f"input {value.name!r} has the shape {(batch, *shape)}, 0 or -1 where it is left open; only the number of "
            "images may be: give a shape, such as --shape 1,3,224,224 or [network] shape = [1, 3, 224, 224], or export it "
            "with a fixed size"
        )
    return max(batch, 1), tuple(shape)


def _outputs(graph: GraphProto, wanted: Sequence[str]) -> tuple[str, ...]:
    if not wanted:
        return (_text(_only("output", graph.output).name),)
    made = {name for node in graph.node for name in node.output}
    missing = [name for name in wanted if name not in made]
    if missing:
        raise FormatError(
            f"no operator makes the value {missing[0]!r}; outputs are names of values in the file"
        )
    return tuple(wanted)


def _operator(node: NodeProto, folder: Path | None) -> Operator:
    op, domain, outputs = _word(node.op_type), _word(node.domain), tuple(map(_text, node.output))
    return Operator(
        _text(node.name) or next(filter(None, outputs), ""),
        op if domain in ("", "ai.onnx") else f"{domain}.{op}",
        tuple(map(_text, node.input)),
        outputs,
        {_word(attribute.name): _attribute(attribute, folder) for attribute in node.attribute},
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


def _attribute(attribute: AttributeProto, folder: Path | None) -> Any:
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
    return _constant(attribute.t, folder) if attribute.type == kind.TENSOR else None


def _precision(data_type: int) -> str:
    from onnx import TensorProto

    known: dict[int, str] = {number: name.lower() for name, number in TensorProto.DataType.items()}
    found = known.get(data_type, "undefined")
    return {"float": "float32", "double": "float64"}.get(found, found)


def _constant(tensor: TensorProto, folder: Path | None) -> Constant:
    """``folder`` is where further files lie, None to leave long tensors where they are."""
    from onnx import numpy_helper

    dims = tuple(tensor.dims)
    if min(dims, default=0) < 0:
        raise FormatError(f"tensor {tensor.name!r} has the shape {dims}")
    external = tensor.data_location == type(tensor).EXTERNAL
    if folder is None and (prod(dims) > _FEW or external):
        return Constant(dims, None, _precision(tensor.data_type))
    try:
        if external:
            _check_inside(tensor, folder or Path())
        values = np.asarray(numpy_helper.to_array(tensor, base_dir=str(folder or "")))
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise FormatError(f"tensor {tensor.name!r} of shape {dims} is damaged ({error})") from None
    return Constant(dims, values if values.dtype.kind in "iuf" else None, _precision(tensor.data_type))


def _check_inside(tensor: TensorProto, folder: Path) -> None:
    """A file may name only files beside it. Raises ``ValueError``."""
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    target = (folder / location).resolve()
    if not location or not target.is_relative_to(folder.resolve()):
        raise ValueError(f"its values lie in {location!r}, outside the file's folder")
    if not target.is_file():
        raise ValueError(f"its values lie in {location!r}, which is not there")
