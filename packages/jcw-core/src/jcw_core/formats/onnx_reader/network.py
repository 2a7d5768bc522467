"""``read_onnx``: a network from an ONNX file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

from jcw_core.errors import FormatError, JcwWarning, NetworkError
from jcw_core.formats.onnx_reader.comparison import compare
from jcw_core.formats.onnx_reader.differences import differences
from jcw_core.formats.onnx_reader.file import parse
from jcw_core.formats.onnx_reader.folding import FOLDED, fold
from jcw_core.formats.onnx_reader.graph import Constant, Graph, Operator, read_graph
from jcw_core.formats.onnx_reader.layers import LAYERS
from jcw_core.formats.onnx_reader.obstacles import UNKNOWN, Obstacles
from jcw_core.formats.onnx_reader.planes import PLANES
from jcw_core.formats.onnx_reader.pointwise import POINTWISE
from jcw_core.formats.onnx_reader.shapes import SHAPES
from jcw_core.formats.onnx_reader.translation import FollowingError, Lost, Translation, plain_name
from jcw_core.network.graph import Network
from jcw_core.network.model import Model

OPERATORS = {**LAYERS, **PLANES, **POINTWISE, **SHAPES}


def read_onnx(path: Path, shape: Sequence[int] | None = None, outputs: Sequence[str] = ()) -> Network:
    """The network that an ONNX file holds, for its cost: weights are not read, so nothing that they say is kept.

    Every operator that the output depends on has a place in the network, or is an error. Where the network is
    another than the file's all the same, as in half precision or with weights that layers share, a
    ``JcwWarning`` says so.

    Args:
        path: a model with one input (images, channels, height, width), of a fixed size but for the
            number of images. Tensors that it keeps in further files are not needed.
        shape: of the input, for sizes that the file leaves open.
        outputs: as ``read_onnx_model`` has them.

    Returns:
        a network named after the file. Layers are named after their weights (``layer1.0.conv1``)
        where the file tells, else after the graph's nodes.

    Raises:
        JcwError: the package onnx is not installed.
        FormatError: the file is damaged, or holds an operator that has no place, which is named.
    """
    try:
        graph = read_graph(parse(path), shape, outputs)
        net = _translated(graph, _name(path))
        network = _network(graph, net)
    except (FormatError, NetworkError) as error:
        raise FormatError(f"{path}: {error}", see=NetworkError.page) from None
    for difference in differences(graph, net):
        warnings.warn(f"{path}: {difference}", JcwWarning, stacklevel=2)
    return network


def read_onnx_model(path: Path, shape: Sequence[int] | None = None, outputs: Sequence[str] = ()) -> Model:
    """The network that an ONNX file holds, with its weights.

    What it computes for one image of noise is compared with what the file computes, by onnxruntime where that is
    installed, else by the reference in the package onnx. Where neither runs the file, a ``JcwWarning`` says so.

    Args:
        path: as ``read_onnx`` has it; tensors in further files beside it are read as well.
        shape: (images, channels, height, width), for sizes that the file leaves open.
        outputs: names of values at which the network ends, for files whose tail, such as the decoding of boxes, has no
            place in one; its only output by default. Several are flattened and joined in this order.

    Raises:
        JcwError: the package onnx is not installed.
        FormatError: as ``read_onnx``, or values are missing or not finite, or the network computes something else than the
            file.
    """
    try:
        file = parse(path)
        graph = read_graph(file, shape, outputs, path.parent)
        net = _translated(graph, _name(path))
        model = Model(_network(graph, net), net.weights, input_name=graph.input)
        compare(path, file, graph, net, model)
        return model
    except (FormatError, NetworkError) as error:
        raise FormatError(f"{path}: {error}", see=NetworkError.page) from None


def _name(path: Path) -> str:
    """What a network is called: the bytes of a file's name need not be characters, which those of a network are."""
    return os.fsencode(path.stem).decode(errors="replace")


def _network(graph: Graph, net: Translation) -> Network:
    """The network that ends with the graph's outputs; several are one vector, in their order."""
    return net.builder.build_joined(
        [net.node(name) for name in graph.outputs], [plain_name(name) for name in graph.outputs]
    )


def _translated(graph: Graph, name: str) -> Translation:
    """Translate every operator, or tell of all that have no place."""
    net = Translation(graph, name)
    obstacles = Obstacles()
    for operator in graph.operators:
        try:
            _translate(net, operator)
        except (FormatError, NetworkError) as error:
            for name in operator.outputs:
                net[name] = Lost()
            if not isinstance(error, FollowingError):
                obstacles.add(operator, str(error))
    if obstacles.found:
        raise FormatError(obstacles.in_words(OPERATORS))
    return net


def _translate(net: Translation, operator: Operator) -> None:
    if operator.op not in OPERATORS:
        raise FormatError(UNKNOWN)
    made = _folded(net, operator) or OPERATORS[operator.op](net, operator)
    for name, value in zip(operator.outputs, made if isinstance(made, list) else [made], strict=False):
        net[name] = value


def _folded(net: Translation, operator: Operator) -> Constant | None:
    """What an operator makes of constants alone, where it is arithmetic on sizes."""
    if operator.op not in FOLDED:
        return None
    values = [net[name] for name in operator.inputs if name]
    constants = [value for value in values if isinstance(value, Constant)]
    return fold(operator, constants) if len(constants) == len(values) else None
