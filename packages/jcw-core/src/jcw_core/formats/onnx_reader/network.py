"""``read_onnx``: a network from an ONNX file."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from jcw_core.errors import FormatError, JcwWarning, NetworkError
from jcw_core.formats.onnx_reader.differences import differences
from jcw_core.formats.onnx_reader.graph import Graph, Operator, read_graph
from jcw_core.formats.onnx_reader.layers import LAYERS
from jcw_core.formats.onnx_reader.pointwise import POINTWISE
from jcw_core.formats.onnx_reader.shapes import SHAPES
from jcw_core.formats.onnx_reader.translation import Translation
from jcw_core.network.graph import Network

_KNOWN = {**LAYERS, **POINTWISE, **SHAPES}


def read_onnx(path: Path) -> Network:
    """The network that an ONNX file holds, for its cost: weights are not read, so nothing that they say is kept.

    Every operator that the output depends on has a place in the network, or is an error. Where the network is
    another than the file's all the same, as in half precision or with weights that layers share, a
    ``JcwWarning`` says so.

    Args:
        path: a model with one input (images, channels, height, width), of a fixed size but for the
            number of images, and one output. Tensors that it keeps in further files are not needed.

    Returns:
        a network named after the file. Layers are named after their weights (``layer1.0.conv1``)
        where the file tells, else after the graph's nodes.

    Raises:
        JcwError: the package onnx is not installed.
        FormatError: the file is damaged, or holds an operator that has no place, which is named.
    """
    try:
        graph = read_graph(path)
        # The bytes of a file's name need not be characters, which those of a network are.
        net = Translation(graph, os.fsencode(path.stem).decode(errors="replace"))
        network = _translated(graph, net)
    except (FormatError, NetworkError) as error:
        raise FormatError(f"{path}: {error}") from None
    for difference in differences(graph, net):
        warnings.warn(f"{path}: {difference}", JcwWarning, stacklevel=2)
    return network


def _translated(graph: Graph, net: Translation) -> Network:
    for operator in graph.operators:
        try:
            _translate(net, operator)
        except (FormatError, NetworkError) as error:
            raise FormatError(f"node {operator.name!r} ({operator.op}): {error}") from None
    return net.builder.build(output=net.node(graph.output))


def _translate(net: Translation, operator: Operator) -> None:
    if operator.op not in _KNOWN:
        raise FormatError(f"this operator has no place in a network; there is: {', '.join(sorted(_KNOWN))}")
    net[operator.outputs[0]] = _KNOWN[operator.op](net, operator)
