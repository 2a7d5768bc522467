"""``model.jcw``: a safetensors file with the network in its header and only kept weights."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from jcw_core.errors import FormatError, JcwError, NetworkError
from jcw_core.files import safetensors_metadata
from jcw_core.network.graph import Network, Node
from jcw_core.network.image_input import ImageInput
from jcw_core.network.layers import FusedLayer, fuse
from jcw_core.network.model import Model
from jcw_core.network.operations import ACTIVATIONS, SLOPES
from jcw_core.network.outputs import makes_logits, shapes_of
from jcw_core.protocols import Precision, WeightType
from jcw_kernels.fold import Folded, fold
from jcw_kernels.quantization import Numbers, Quantization, quantized
from jcw_kernels.weight_packing import as_stored, pack

FORMAT = "jcw-model/7"
"""What is written. Engines read this and all before it: version 1 states neither precision nor checksum, up to version 2
all weights are float32, up to version 3 all layers compute with
floats, up to version 4 depthwise ones do, and up to version 5 linear ones, and up to version 6 resizing is by whole
factors between the centres of pixels, and slopes are layers of their own. Those before float16 refuse it by its name."""

IMAGES = "images"
"""The key of the metadata that says how image files become the input; a model runs without."""

OUTPUTS = "outputs"
"""The key of the metadata that has names and shapes of what the network makes; the engine does not read it."""

_ATTRIBUTES = (
    *("out_channels", "groups", "kernel_size", "stride", "padding", "dilation", "output_padding"),
    *("low", "high", "slope", "alpha", "start", "scale", "factor", "size", "align_corners"),
)


def serialize(
    model: Model,
    weights: WeightType | None = None,
    quantization: Quantization | None = None,
    precision: Precision = "float32",
) -> bytes:
    """The contents of a ``model.jcw``: what the engine loads, here or on a device.

    Args:
        model: what is to run.
        weights: what they are stored as, by default float16 where ``precision`` is and else float32. ``"float16"`` halves the
            file; biases stay float32, and so do the weights of a layer that would lose more than rounding.
        quantization: the numbers that layers read which compute with whole ones; their weights are stored as int8.
        precision: what all layers compute in; ``"int8"`` is what ``quantization`` makes of some.

    Raises:
        JcwError: ``precision`` and ``quantization`` say different things.
        NetworkError: the name of a layer cannot stand in a file.
    """
    quantization = quantization or {}
    weights = weights or ("float16" if precision == "float16" else "float32")
    metadata = {
        "network": model.network.to_json(),
        "program": json.dumps(program_of(model.network, quantization)),
        "precision": _precision(precision, quantization),
        OUTPUTS: json.dumps([[name, list(shape)] for name, shape in shapes_of(model.network).items()]),
    }
    if model.architecture is not None:
        metadata["architecture"] = json.dumps(model.architecture.to_dict())
    if model.images is not None:
        metadata[IMAGES] = model.images.to_json()
    tensors: dict[str, NDArray[Any]] = {}
    for layer in layers_of(model.network):
        _require_name(layer.name)
        folded = fold(layer, model.weights)
        if folded is not None and layer.name in quantization:
            tensors |= quantized_tensors(layer.name, folded, quantization[layer.name])
        elif folded is not None:
            tensors |= layer_tensors(layer.name, folded, weights)
        if layer.node.op == "prelu":
            tensors[f"{layer.name}.weight"] = model.weights[f"{layer.name}.weight"]
        if layer.activation in SLOPES:
            tensors[f"{layer.name}.slopes"] = _slopes(model, model.network[layer.output])
    return _sorted_header(save(tensors, stated(metadata, tensors)))


def _slopes(model: Model, node: Node) -> NDArray[np.float32]:
    """One for each channel of a node that has slopes."""
    if node.op == "prelu":
        return model.weights[f"{node.name}.weight"]
    channels = model.network.shapes[node.name][0]
    return np.full(channels, node.attributes["slope"], np.float32)


def _precision(asked: Precision, quantization: Quantization) -> Precision:
    """What a file states."""
    if quantization and asked == "float16":
        raise JcwError("precision is 'float16', but quantization asks for int8; leave one of them out")
    if asked == "int8" and not quantization:
        raise JcwError("precision is 'int8' without quantization; give the numbers that calibrate chooses")
    return "int8" if quantization else asked


def stated(metadata: Mapping[str, str], tensors: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """The metadata with what every file states: format, precision (float32 unless they say so) and checksum."""
    metadata = {"format": FORMAT, "precision": "float32", **metadata}
    return metadata | {"checksum": checksum(metadata, tensors)}


def checksum(metadata: Mapping[str, str], tensors: Mapping[str, NDArray[Any]]) -> str:
    """CRC-32 over names and contents of all metadata but the checksum itself, then of all tensors, both in order of name.

    It finds files that were damaged on their way, and proves nothing about who made them.
    """
    crc = 0
    for name in sorted(metadata.keys() - {"checksum"}):
        crc = zlib.crc32(metadata[name].encode(), zlib.crc32(name.encode(), crc))
    for name in sorted(tensors):
        crc = zlib.crc32(np.ascontiguousarray(tensors[name]).data, zlib.crc32(name.encode(), crc))
    return f"crc32:{crc:08x}"


def _sorted_header(data: bytes) -> bytes:
    """The same file with the keys of its header in order: the library's order changes between runs."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8:start]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[start:]


def _require_name(name: str) -> None:
    """Raise for a name that is no UTF-8, or that would move the cursor of a terminal."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise NetworkError(f"layer {name!a}: half a character in its name; give it another") from None
    if any(c < " " or c == "\x7f" for c in name):
        raise NetworkError(f"layer {name!a}: a control character in its name; give it another")


def layers_of(network: Network) -> list[FusedLayer]:
    """Layers of one operation each: the engine decides itself what it runs together."""
    return [part for layer in fuse(network) for part in layer.parts]


def numbers_of(network: Network) -> Mapping[str, int]:
    """The number of the tensor that a node makes, by its name: 0 is the input, layer ``i`` makes tensor ``i + 1``."""
    return {network.input.name: 0} | {layer.output: i + 1 for i, layer in enumerate(layers_of(network))}


def program_of(network: Network, quantization: Quantization) -> Mapping[str, Any]:
    """The layers of ``network`` as plain data."""
    numbers = numbers_of(network)
    return {
        "input": list(network.input_shape),
        "units": [
            _entry(network, layer, numbers) | _input_numbers(quantization.get(layer.name))
            for layer in layers_of(network)
        ],
        "output": numbers[network.output.inputs[0]],
    }


def _input_numbers(numbers: Numbers | None) -> dict[str, Any]:
    return {} if numbers is None else {"input_scale": numbers.scale, "input_zero": numbers.zero}


def layer_tensors(name: str, folded: Folded, weights: WeightType = "float32") -> dict[str, NDArray[Any]]:
    """The arrays of one layer: bits and values where groups are pruned, the whole weight where not."""
    return {f"{name}.bias": folded.bias} | _weight_tensors(name, as_stored(folded.weight, weights))


def quantized_tensors(name: str, folded: Folded, numbers: Numbers) -> dict[str, NDArray[Any]]:
    """The same of a layer that computes with whole numbers, and their scales."""
    weight, scale, made_up = quantized(folded, numbers)
    return {f"{name}.bias": made_up.bias, f"{name}.scale": scale} | _weight_tensors(name, weight)


def _weight_tensors(name: str, weight: NDArray[Any]) -> dict[str, NDArray[Any]]:
    depthwise = weight.ndim == 4 and weight.shape[1] == 1
    pruned = None if depthwise else pack(weight)
    if pruned is None:
        return {f"{name}.weight": weight}
    return {f"{name}.mask": pruned[0], f"{name}.values": pruned[1]}


def _entry(network: Network, layer: FusedLayer, numbers: Mapping[str, int]) -> dict[str, Any]:
    node = layer.node
    entry: dict[str, Any] = {
        "name": layer.name,
        "op": "activation" if node.op in ACTIVATIONS else node.op,
        "inputs": [numbers[name] for name in layer.inputs],
        "activation": node.op if node.op in ACTIVATIONS else layer.activation,
    }
    if layer.activation in SLOPES:
        entry["activation"] = "prelu"  # a slope for each channel, be they all the same
    entry |= {key: _plain(node.attributes[key]) for key in _ATTRIBUTES if key in node.attributes}
    if node.op == "linear":
        entry["out_channels"] = node.attributes["out_features"]
    if node.op == "batch_norm":
        channels = network.shapes[node.name][0]
        entry |= {"op": "conv2d", "out_channels": channels, "groups": channels}
    if node.op == "slice":
        entry["out_channels"] = network.shapes[node.name][0]
    if node.op == "unflatten":
        entry["op"] = "flatten"  # to the engine, a feature is a plane of one pixel
    if layer.residual is not None:
        entry["residual"] = numbers[layer.residual]
    return entry


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, Sequence) else value


def random_input(shape: Sequence[int], seed: int = 0) -> NDArray[np.float32]:
    """One image of standard normal pixels, (1, *shape); a large one repeats the first 65,536."""
    count = min(math.prod(shape), 1 << 16)
    return np.resize(np.random.default_rng(seed).standard_normal(count, dtype=np.float32), (1, *shape))


def output_shapes_of(file: bytes) -> Mapping[str, tuple[int, ...]]:
    """Shapes of a network's outputs by name, in the order in which they are joined; empty where a ``model.jcw`` says nothing.

    Raises:
        FormatError: what it says cannot be read.
    """
    text = safetensors_metadata(file).get(OUTPUTS, "[]")
    try:
        return {str(name): tuple(map(int, shape)) for name, shape in json.loads(text)}
    except (ValueError, TypeError) as error:
        raise FormatError(f"what it says of its outputs cannot be read ({error!r:.100})") from None


def classifies(file: bytes) -> bool:
    """Whether what a ``model.jcw`` makes are classes: it has names of them, or logits. Without its network, that is taken for granted."""
    text, images = safetensors_metadata(file).get("network"), images_of(file)
    named = images is not None and bool(images.classes)
    return named or text is None or makes_logits(Network.from_json(text))


def images_of(file: bytes) -> ImageInput | None:
    """What a ``model.jcw`` says of image files; None where it says nothing.

    Raises:
        FormatError: what it says cannot be read.
    """
    text = safetensors_metadata(file).get(IMAGES)
    return None if text is None else ImageInput.from_json(text)


def precision_of(file: bytes) -> Precision:
    """What the layers of a ``model.jcw`` compute in that engines can read; files of version 1 do not say."""
    stated = safetensors_metadata(file).get("precision", "float32")
    return next(known for known in get_args(Precision) if known == stated)
