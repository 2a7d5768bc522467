"""The ``onnx`` exporter: the network as any runtime takes it, pruned weights as zeros."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jcw_core.errors import JcwError
from jcw_core.files import atomic
from jcw_core.network.graph import Node
from jcw_core.network.model import Model
from jcw_core.network.operations import sides

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

OPSET, IR_VERSION = 13, 8
"""Old enough for every runtime in use; later versions add nothing that these networks need."""

INPUT, OUTPUT = "input", "output"
"""Names of the graph's input and output."""


class OnnxExporter:
    """``model.onnx``: (n, channels, height, width) images to (n, classes) logits, float32."""

    name = "onnx"
    suffix = ".onnx"

    def export(self, model: Model, path: Path) -> None:
        """Write ``path`` atomically. Raises ``JcwError`` when the package onnx is not installed."""
        content = to_onnx(model).SerializeToString()
        with atomic(path) as temporary:
            temporary.write_bytes(content)


def to_onnx(model: Model, *, batch: int | None = None) -> ModelProto:
    """The ONNX form of a model.

    Args:
        model: network and weights; pruned weights stay as zeros.
        batch: images per call; any number by default.

    Raises:
        JcwError: the package onnx is not installed.
    """
    try:
        from onnx import TensorProto, helper
    except ImportError:
        raise JcwError("ONNX files need the package onnx: pip install 'jcw-core[onnx]'") from None
    network = model.network
    names = {network.input.name: INPUT, network.output.inputs[0]: OUTPUT}
    nodes = [part for node in network for part in _nodes(node, lambda name: names.get(name, name))]
    size: Sequence[int | str] = ["n" if batch is None else batch]
    graph = helper.make_graph(
        nodes,
        network.name,
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [*size, *network.input_shape])],
        [
            helper.make_tensor_value_info(
                OUTPUT, TensorProto.FLOAT, [*size, *network.shapes[network.output.name]]
            )
        ],
        _initializers(model),
    )
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="jcw")


def _initializers(model: Model) -> list[TensorProto]:
    from onnx import numpy_helper

    tensors = [numpy_helper.from_array(np.ascontiguousarray(a), name) for name, a in model.weights.items()]
    if any(node.op == "relu6" for node in model.network):
        limits = {_ZERO: 0, _SIX: 6}
        tensors += [numpy_helper.from_array(np.array(v, np.float32), name) for name, v in limits.items()]
    return tensors


_ZERO, _SIX = "relu6.low", "relu6.high"

_PLAIN = {
    "global_avg_pool": "GlobalAveragePool",
    "flatten": "Flatten",
    "add": "Add",
    "mul": "Mul",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
}
"""Operations that need nothing but their inputs."""

_GATES = {"silu": "sigmoid", "hardswish": "hardsigmoid"}
"""Activations that multiply their input by another activation of it."""


def _nodes(node: Node, tensor: Callable[[str], str]) -> list[NodeProto]:
    """The ONNX operators for one node; ``tensor`` names the value of a node."""
    from onnx import helper

    if node.op in ("input", "output"):
        return []
    inputs, output = [tensor(name) for name in node.inputs], tensor(node.name)
    if node.op in _GATES:
        gate = f"{node.name}.gate"
        kind, attributes = _activation(_GATES[node.op])
        return [
            helper.make_node(kind, inputs, [gate], name=gate, **attributes),
            helper.make_node("Mul", [*inputs, gate], [output], name=node.name),
        ]
    kind, arrays, attributes = _operator(node)
    return [helper.make_node(kind, [*inputs, *arrays], [output], name=node.name, **attributes)]


def _activation(op: str) -> tuple[str, Mapping[str, Any]]:
    return ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}) if op == "hardsigmoid" else (_PLAIN[op], {})


def _operator(node: Node) -> tuple[str, list[str], Mapping[str, Any]]:
    """Operator, names of the arrays that it reads after its inputs, and attributes."""
    a = node.attributes
    if node.op == "conv2d":
        return (
            "Conv",
            _arrays(node, "weight", *["bias"] * bool(a["bias"])),
            {**_window(node), "group": a["groups"]},
        )
    if node.op == "linear":
        return "Gemm", _arrays(node, "weight", *["bias"] * bool(a["bias"])), {"transB": 1}
    if node.op == "batch_norm":
        arrays = _arrays(node, "weight", "bias", "running_mean", "running_var")
        return "BatchNormalization", arrays, {"epsilon": a["eps"]}
    if node.op == "max_pool":
        return "MaxPool", [], _window(node)
    if node.op == "avg_pool":
        return "AveragePool", [], {**_window(node), "count_include_pad": 1}
    if node.op == "concat":
        return "Concat", [], {"axis": 1}
    if node.op == "relu6":
        return "Clip", [_ZERO, _SIX], {}
    kind, attributes = _activation(node.op)
    return kind, [], attributes


def _arrays(node: Node, *keys: str) -> list[str]:
    return [f"{node.name}.{key}" for key in keys]


def _window(node: Node) -> Mapping[str, Any]:
    """ONNX gives the padding of all four sides."""
    kernel, stride = node.attributes["kernel_size"], node.attributes["stride"]
    return {"kernel_shape": kernel, "strides": stride, "pads": sides(node.attributes)}
