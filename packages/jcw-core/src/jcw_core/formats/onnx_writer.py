"""The ``onnx`` exporter: the network as any runtime takes it, pruned weights as zeros."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import JcwError
from jcw_core.files import atomic
from jcw_core.network.graph import Network, Node
from jcw_core.network.model import Model
from jcw_core.network.operations import CONVOLUTIONS, dilation_of, integer, pair, sides
from jcw_core.network.outputs import ONLY, outputs_of, shapes_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

OPSET, IR_VERSION = 13, 8
"""Old enough for every runtime in use; later versions add nothing that these networks need."""

INPUT, OUTPUT = "input", ONLY
"""Names of the graph's input and of its output, where it has one."""


class OnnxExporter:
    """``model.onnx``: (n, channels, height, width) images to (n, classes) logits, or to several outputs, float32.

    What is known of image files stands in the metadata under ``images``, see ``jcw_core.network.image_input``.
    """

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
    source, outputs = _input_name(model), outputs_of(network)
    names = {network.input.name: source} | {one.source: one.name for one in outputs if len(outputs) == 1}
    nodes = [
        part
        for node in network
        if node.name not in _joining(network)
        for part in _nodes(node, lambda name: names.get(name, name))
    ]
    # Several outputs are handed out as they are; one that is called otherwise than its node is a copy.
    nodes += [
        helper.make_node("Identity", [names.get(one.source, one.source)], [one.name], name=one.name)
        for one in outputs
        if names.get(one.source, one.source) != one.name
    ]
    size: Sequence[int | str] = ["n" if batch is None else batch]
    graph = helper.make_graph(
        nodes,
        network.name,
        [helper.make_tensor_value_info(source, TensorProto.FLOAT, [*size, *network.input_shape])],
        [helper.make_tensor_value_info(one.name, TensorProto.FLOAT, [*size, *one.shape]) for one in outputs],
        _initializers(model),
    )
    opset = helper.make_opsetid("", OPSET)
    made = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="jcw")
    if model.images is not None:
        helper.set_model_props(made, {"images": model.images.to_json()})
    return made


def _joining(network: Network) -> Set[str]:
    """Names of the nodes that make one vector of several outputs, which a file of ONNX has no need of."""
    if len(outputs_of(network)) == 1:
        return frozenset()
    last = network[network.output.inputs[0]]
    return {last.name, *last.inputs}


def _input_name(model: Model) -> str:
    """The name that the input had in the file that the network came from, where nothing else is called so."""
    name = INPUT if model.images is None else model.images.name
    taken = (
        name in {OUTPUT, *shapes_of(model.network)}
        or name in model.weights
        or (name in model.network and name != model.network.input.name)
    )
    return INPUT if taken else name


def _initializers(model: Model) -> list[TensorProto]:
    from onnx import numpy_helper

    network = model.network
    tensors = [
        numpy_helper.from_array(np.ascontiguousarray(_as_onnx(network, name, a)), name)
        for name, a in model.weights.items()
    ]
    tensors += [
        numpy_helper.from_array(np.asarray(value), f"{node.name}.{key}")
        for node in network
        for key, value in _constants(network, node).items()
    ]
    if any(node.op == "relu6" for node in model.network):
        limits = {_ZERO: 0, _SIX: 6}
        tensors += [numpy_helper.from_array(np.array(v, np.float32), name) for name, v in limits.items()]
    return tensors


def _as_onnx(network: Network, name: str, array: NDArray[np.float32]) -> NDArray[np.float32]:
    """A weight as ONNX has it."""
    layer, _, key = name.rpartition(".")
    node = network[layer]
    if node.op == "prelu":  # broadcast to its input from the right
        return array.reshape(-1, *[1] * (len(network.shapes[layer]) - 1))
    if node.op == "conv_transpose2d" and key == "weight":  # (in, out / groups, height, width)
        groups = integer(node.attributes, "groups")
        turned = array.reshape(groups, -1, *array.shape[1:]).swapaxes(1, 2)
        return turned.reshape(-1, *turned.shape[2:])
    return array


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

_NUMBERS = {"leaky_relu": ("LeakyRelu", "slope"), "elu": ("Elu", "alpha")}
"""Operators with one number, which ONNX calls alpha."""

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
    if node.op == "channel_shuffle":
        return _shuffle(node, inputs, output)
    kind, arrays, attributes = _operator(node)
    before = _sizes(node, inputs) if "size" in node.attributes else []
    return [*before, helper.make_node(kind, [*inputs, *arrays], [output], name=node.name, **attributes)]


def _shuffle(node: Node, inputs: list[str], output: str) -> list[NodeProto]:
    from onnx import helper

    apart, turned = f"{node.name}.apart", f"{node.name}.turned"
    return [
        helper.make_node("Reshape", [*inputs, f"{node.name}.groups"], [apart], name=apart),
        helper.make_node("Transpose", [apart], [turned], name=turned, perm=(0, 2, 1, 3, 4)),
        helper.make_node("Reshape", [turned, f"{node.name}.channels"], [output], name=node.name),
    ]


def _sizes(node: Node, inputs: list[str]) -> list[NodeProto]:
    """All four sizes of what is made: those of images and channels are its input's."""
    from onnx import helper

    shape, front, sizes = (f"{node.name}.{part}" for part in ("shape", "front", "sizes"))
    return [
        helper.make_node("Shape", inputs, [shape], name=shape),
        helper.make_node("Slice", [shape, *_arrays(node, "start", "stop")], [front], name=front),
        helper.make_node("Concat", [front, *_arrays(node, "size")], [sizes], name=sizes, axis=0),
    ]


def _constants(network: Network, node: Node) -> Mapping[str, Any]:
    """What ONNX has as small tensors where the network has attributes, by key."""
    a, shape = node.attributes, network.shapes[node.name]
    if node.op == "clip":
        return {key: np.array(a[key], np.float32) for key in ("low", "high")}
    if node.op == "slice":
        values = {"start": a["start"], "stop": a["stop"], "axis": 1}
        return {key: np.array([value], np.int64) for key, value in values.items()}
    if node.op == "channel_shuffle":
        groups = integer(a, "groups")
        apart = (0, groups, shape[0] // groups, *shape[1:])
        return {"groups": np.array(apart, np.int64), "channels": np.array((0, *shape), np.int64)}
    if node.op in _RESIZE and "size" in a:
        return {
            "size": np.array(pair(a, "size"), np.int64),
            "start": np.array([0], np.int64),
            "stop": np.array([2], np.int64),
        }
    if node.op in _RESIZE:
        return {"factors": np.array((1, 1, *(pair(a, "scale") if "scale" in a else (1, 1))), np.float32)}
    return {"shape": np.array((0, -1, 1, 1), np.int64)} if node.op == "unflatten" else {}


_RESIZE = {
    "resize_nearest": {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    },
    "resize_bilinear": {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
}

_WITH_CONSTANTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "clip": ("Clip", ("low", "high")),
    "slice": ("Slice", ("start", "stop", "axis")),
    "unflatten": ("Reshape", ("shape",)),
    "prelu": ("PRelu", ("weight",)),
}
"""Operators that read small tensors after their input, and the keys of these."""


def _activation(op: str) -> tuple[str, Mapping[str, Any]]:
    return ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}) if op == "hardsigmoid" else (_PLAIN[op], {})


def _operator(node: Node) -> tuple[str, list[str], Mapping[str, Any]]:
    """Operator, names of the arrays that it reads after its inputs, and attributes."""
    a = node.attributes
    if node.op in CONVOLUTIONS:
        kind = "Conv" if node.op == "conv2d" else "ConvTranspose"
        window = {**_window(node), "group": a["groups"]}
        if (dilation := dilation_of(a)) != (1, 1):
            window["dilations"] = dilation
        if "output_padding" in a:
            window["output_padding"] = a["output_padding"]
        return kind, _arrays(node, "weight", *["bias"] * bool(a["bias"])), window
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
    if node.op in _WITH_CONSTANTS:
        kind, keys = _WITH_CONSTANTS[node.op]
        return kind, _arrays(node, *keys), {}
    if node.op in _RESIZE:
        how = {"coordinate_transformation_mode": "align_corners"} if a.get("align_corners") else {}
        by = ["", *_arrays(node, "sizes")] if "size" in a else _arrays(node, "factors")
        return "Resize", ["", *by], {**_RESIZE[node.op], **how}
    if node.op in _NUMBERS:
        kind, key = _NUMBERS[node.op]
        return kind, [], {"alpha": a[key]}
    if node.op == "pixel_shuffle":
        return "DepthToSpace", [], {"blocksize": a["factor"], "mode": "CRD"}
    if node.op == "softmax":
        return "Softmax", [], {"axis": 1}
    kind, attributes = _activation(node.op)
    return kind, [], attributes


def _arrays(node: Node, *keys: str) -> list[str]:
    return [f"{node.name}.{key}" for key in keys]


def _window(node: Node) -> Mapping[str, Any]:
    """ONNX gives the padding of all four sides."""
    kernel, stride = node.attributes["kernel_size"], node.attributes["stride"]
    return {"kernel_shape": kernel, "strides": stride, "pads": sides(node.attributes)}
