"""ONNX files: each operator that a network has is read as it is meant."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import (
    AXES,
    FLAT,
    LIMITS,
    WINDOW,
    Steps,
    TensorProto,
    helper,
    model,
    numbers,
    rich_model,
    step,
    weights,
)

from jcw_core.errors import JcwError
from jcw_core.formats.onnx_reader import read_onnx
from jcw_core.network.graph import Network


def operations(network: Network) -> list[str]:
    return [node.op for node in network][1:-1]


SIZE = {"kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1)}
CONV = {"out_channels": 8, "groups": 1, "bias": False}


@pytest.mark.parametrize(
    ("node", "tensors", "op", "attributes"),
    [
        (step("Conv", "x", "w", **WINDOW), weights(w=(8, 4, 3, 3)), "conv2d", CONV | SIZE),
        (step("Conv", "x", "w", "b", auto_pad="SAME_UPPER"), weights(w=(8, 4, 3, 3), b=(8,)), "conv2d", CONV | SIZE | {"bias": True}),
        (step("Conv", "x", "w", "", auto_pad="VALID", strides=(2, 1)), weights(w=(8, 4, 3, 1)), "conv2d",
         CONV | {"kernel_size": (3, 1), "stride": (2, 1), "padding": (0, 0)}),
        (step("Conv", "x", "w", strides=(2, 2), pads=(0, 1, 2, 3)), weights(w=(8, 4, 3, 3)), "conv2d",
         CONV | SIZE | {"stride": (2, 2), "padding": (0, 1, 2, 3)}),
        (step("Conv", "x", "w", auto_pad="SAME_UPPER", strides=(2, 2)), weights(w=(8, 4, 3, 3)), "conv2d",
         CONV | SIZE | {"stride": (2, 2), "padding": (0, 0, 1, 1)}),
        (step("Conv", "x", "w", auto_pad="SAME_LOWER"), weights(w=(8, 4, 2, 2)), "conv2d",
         CONV | {"kernel_size": (2, 2), "stride": (1, 1), "padding": (1, 1, 0, 0)}),
        (step("MaxPool", "x", kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1), (), "max_pool",
         SIZE | {"stride": (2, 2), "padding": (0, 0, 1, 1)}),
        (step("Conv", "x", "w", group=4, **WINDOW), weights(w=(4, 1, 3, 3)), "conv2d", CONV | SIZE | {"out_channels": 4, "groups": 4}),
        (step("BatchNormalization", "x", *"abcd", epsilon=0.25), weights(a=(4,), b=(4,), c=(4,), d=(4,)), "batch_norm", {"eps": 0.25}),
        (step("MaxPool", "x", strides=(1, 1), **WINDOW), (), "max_pool", SIZE),
        (step("MaxPool", "x", kernel_shape=(2, 2), strides=(2, 2), ceil_mode=1), (), "max_pool",
         {"kernel_size": (2, 2), "stride": (2, 2), "padding": (0, 0)}),
        (step("AveragePool", "x", strides=(1, 1), **WINDOW), (), "avg_pool", SIZE),
        (step("GlobalAveragePool", "x"), (), "global_avg_pool", {}),
        (step("ReduceMean", "x", axes=(-2, -1)), (), "global_avg_pool", {}),
        (step("ReduceMean", "x", "axes"), [AXES], "global_avg_pool", {}),
        (step("Flatten", "x"), (), "flatten", {}),
        (step("Reshape", "x", "to"), [numbers("to", [0, -1], np.int64)], "flatten", {}),
        (step("Relu", "x"), (), "relu", {}),
        (step("Clip", "x", "low", "high"), [numbers("low", 0), numbers("high", 6)], "relu6", {}),
        (step("Clip", "x", min=0.0, max=6.0), (), "relu6", {}),
        (step("Clip", "x", "low"), [numbers("low", 0)], "relu", {}),
        (step("Clip", "x", min=0.0, max=3.4028234663852886e38), (), "relu", {}),
        (step("HardSwish", "x"), (), "hardswish", {}),
        (step("HardSigmoid", "x", alpha=1 / 6, beta=0.5), (), "hardsigmoid", {}),
        (step("Sigmoid", "x"), (), "sigmoid", {}),
        (step("Add", "x", "x"), (), "add", {}),
        (step("Mul", "x", "x"), (), "mul", {}),
        (step("Concat", "x", "x", axis=1), (), "concat", {}),
        (step("Concat", "x", "x", axis=-3), (), "concat", {}),
    ],
    ids=lambda value: value.op_type if hasattr(value, "op_type") else "",
)  # fmt: skip
def test_every_supported_operator(
    read_model: Callable[..., Network], node: Any, tensors: Sequence[Any], op: str, attributes: dict[str, Any]
) -> None:
    network = read_model([node], tensors)
    assert operations(network) == [op]
    assert dict(network.nodes[1].attributes) == attributes
    assert network.nodes[1].name == node.name
    assert (network.name, network.input_shape) == ("net", (4, 6, 6))


RELU6_OF_SUM = [step("Add", "x", "three"), step("Clip", "add", "zero", "six")]


@pytest.mark.parametrize(
    ("steps", "tensors", "expected"),
    [
        ([step("Sigmoid", "x"), step("Mul", "x", "sigmoid")], (), ["silu"]),
        ([step("Sigmoid", "x"), step("Mul", "sigmoid", "x")], (), ["silu"]),
        ([step("HardSigmoid", "x", alpha=1 / 6), step("Mul", "x", "hardsigmoid")], (), ["hardswish"]),
        ([*RELU6_OF_SUM, step("Div", "clip", "six")], LIMITS, ["hardsigmoid"]),
        ([*RELU6_OF_SUM, step("Mul", "sixth", "clip")], LIMITS, ["hardsigmoid"]),
        ([*RELU6_OF_SUM, step("Div", "clip", "six"), step("Mul", "x", "div")], LIMITS, ["hardswish"]),
        ([*RELU6_OF_SUM, step("Mul", "clip", "x"), step("Div", "mul", "six")], LIMITS, ["hardswish"]),
        ([*RELU6_OF_SUM, step("Mul", "x", "clip"), step("Mul", "mul", "sixth", to="y")], LIMITS, ["hardswish"]),
        # A gate of another value, or one that others read as well, stays an operation of its own.
        ([step("Sigmoid", "x"), step("Relu", "x"), step("Mul", "relu", "sigmoid")], (), ["relu", "sigmoid", "mul"]),
        ([step("Sigmoid", "x"), step("Add", "x", "sigmoid"), step("Mul", "x", "sigmoid"), step("Add", "add", "mul", to="y")], (),
         ["sigmoid", "add", "mul", "add"]),
        ([step("ReduceMean", "x", axes=(2, 3), keepdims=0)], (), ["global_avg_pool", "flatten"]),
        ([step("GlobalAveragePool", "x"), step("Squeeze", "globalaveragepool", "axes")], [AXES], ["global_avg_pool", "flatten"]),
        ([step("Dropout", "x"), step("Identity", "dropout"), step("Relu", "identity")], (), ["relu"]),
        ([step("Relu", "x"), step("Sigmoid", "x"), step("Tanh", "relu"), step("Relu", "sigmoid", to="y")], (), ["sigmoid", "relu"]),
    ],
)  # fmt: skip
def test_activations_spelt_out_as_several_operators(
    read_model: Callable[..., Network], steps: Steps, tensors: Sequence[Any], expected: list[str]
) -> None:
    assert operations(read_model(steps, tensors)) == expected


def test_factors_per_channel_come_second(read_model: Callable[..., Network]) -> None:
    network = read_model(
        [step("GlobalAveragePool", "x", to="g"), step("Sigmoid", "g"), step("Mul", "sigmoid", "x")]
    )
    assert network["Mul"].inputs == ("input", "Sigmoid")


@pytest.mark.parametrize(
    ("steps", "bias"),
    [
        ([step("Gemm", "flat", "w")], False),
        ([step("Gemm", "flat", "wt", "b", transB=1)], True),
        ([step("MatMul", "flat", "w")], False),
        ([step("MatMul", "flat", "w"), step("Add", "matmul", "b")], True),
        ([step("MatMul", "flat", "w"), step("Add", "b", "matmul")], True),
    ],
)
def test_fully_connected_layers(read_model: Callable[..., Network], steps: Steps, bias: bool) -> None:
    network = read_model([*FLAT, *steps], weights(w=(144, 10), wt=(10, 144), b=(10,)))
    assert operations(network) == ["flatten", "linear"]
    assert dict(network.nodes[-2].attributes) == {"out_features": 10, "bias": bias}


def test_reshapes_to_computed_shapes(read_model: Callable[..., Network]) -> None:
    """``x.view(x.size(0), -1)`` of a model whose number of images is left open."""
    steps = [
        step("Shape", "x"),
        step("Constant", to="zero", value=numbers("", 0, np.int64)),
        step("Gather", "shape", "zero", axis=0),
        step("Unsqueeze", "gather", "axis"),
        step("Constant", to="rest", value_ints=[-1]),
        step("Concat", "unsqueeze", "rest", axis=0),
        step("Reshape", "x", "concat"),
    ]
    network = read_model(steps, [numbers("axis", [0], np.int64)])
    assert operations(network) == ["flatten"]
    assert network.num_classes == 144


@pytest.mark.filterwarnings("ignore:.*share a weight:jcw_core.errors.JcwWarning")
def test_layers_are_named_after_their_weights(read_model: Callable[..., Network]) -> None:
    names = {"layer1.0.conv1.weight": (4, 4, 1, 1), "onnx::Conv_12": (4, 4, 1, 1)}
    steps = [
        step("Conv", "x", "layer1.0.conv1.weight", name="/layer1/0/conv1/Conv", to="a"),
        step("Conv", "a", "onnx::Conv_12", name="/layer1/layer1.1/conv1/Conv", to="b"),
        step("Relu", "b", name='re"lu\n', to="c"),
        step("Relu", "c", name="output", to="d"),
        step("Relu", "d", name="re/lu", to="e"),
        step("Relu", "e", name="re.lu", to="f"),
        helper.make_node("Relu", ["f"], ["/act/Relu_output_0"]),
        step("Conv", "/act/Relu_output_0", "layer1.0.conv1.weight", name="again"),
    ]
    assert [node.name for node in read_model(steps, weights(**names))] == [
        "input", "layer1.0.conv1", "layer1.1.conv1", "re_lu", "output_2", "re.lu", "re.lu_2", "act.Relu_output_0",
        "layer1.0.conv1_2", "output",
    ]  # fmt: skip


def test_weights_among_the_inputs(read_model: Callable[..., Network], tmp_path: Path) -> None:
    proto = model([step("Conv", "x", "w")], weights(w=(8, 4, 1, 1)), shape=(2, 4, 6, 6))
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [8, 4, 1, 1]))
    (tmp_path / "old.onnx").write_bytes(proto.SerializeToString())
    assert read_onnx(tmp_path / "old.onnx").macs == 8 * 4 * 36


def elsewhere(tensor: Any) -> Any:
    """The same tensor, its values said to be in another file."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/hostname")
    return tensor


@pytest.mark.parametrize("name", [b"net-\xff", b"\xc3", "né".encode()])
def test_a_file_of_any_name(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / os.fsdecode(name + b".onnx")
    path.write_bytes(rich_model())
    assert read_onnx(path).name == name.decode(errors="replace")


def test_external_tensor_data_is_not_read(read_model: Callable[..., Network]) -> None:
    (weight,) = weights(w=(8, 4, 1, 1))
    assert read_model([step("Conv", "x", "w")], [elsewhere(weight)]).macs == 8 * 4 * 36
    with pytest.raises(JcwError, match="clips to None"):
        read_model([step("Clip", "x", "low")], [elsewhere(numbers("low", 0))])
