"""An ONNX file as it is stored: read from disk, and cut to the operators that some values need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jcw_core.errors import FormatError, JcwError
from jcw_core.network.operations import Shape

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

_LARGEST_FILE = 2**31 - 1
"""Bytes of the largest message of the format."""
SOFTMAX_OF_ONE_AXIS = 13
"""Version of ONNX's operators before which a softmax takes all axes from its own on together."""


def parse(path: Path) -> ModelProto:
    """The content of a file. Raises as ``read_onnx`` does; the message does not name the file."""
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


def opset_of(file: ModelProto) -> int:
    """The version of ONNX's operators that a file is written in."""
    return max((entry.version for entry in file.opset_import if entry.domain in ("", "ai.onnx")), default=1)


def needed(graph: GraphProto, outputs: Sequence[str]) -> list[int]:
    """The places of the operators that values depend on, in the file's order: a runtime runs no others."""
    wanted, found = set(outputs), []
    for place in reversed(range(len(graph.node))):
        node = graph.node[place]
        if not wanted.isdisjoint(node.output):
            found.append(place)
            wanted.update(node.input)
    return found[::-1]


def cut(file: ModelProto, folder: Path, shape: Shape, outputs: Sequence[str]) -> None:
    """Leave of a file what its outputs need, for an input of one size, with all weights inside.

    Args:
        file: changed in place, as a copy would take as much memory again.
        folder: where its further files lie.
        shape: of the input, with the images.
        outputs: names of values.
    """
    from onnx import ValueInfoProto
    from onnx.external_data_helper import load_external_data_for_model

    graph = file.graph
    kept = set(needed(graph, outputs))
    for place in reversed(range(len(graph.node))):
        if place not in kept:
            del graph.node[place]
    tensors = {tensor.name for tensor in graph.initializer}
    (source,) = (value for value in graph.input if value.name not in tensors)
    for size, dim in zip(shape, source.type.tensor_type.shape.dim, strict=True):
        dim.dim_value = size
    # What is said of the shapes of others may hold for another size of the input.
    del graph.value_info[:]
    del graph.output[:]
    graph.output.extend(ValueInfoProto(name=name) for name in outputs)
    load_external_data_for_model(file, str(folder))
