"""ONNX files: what has a place is read, what has none is named, and no damage goes further than one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from latency_samples import Plugin

from jcw_core.cli import build
from jcw_core.errors import JcwError
from jcw_core.network import Network
from jcw_core.registry import Registry
from jcw_core.space import SearchSpace
from jcw_latency import LatencyTable
from jcw_latency.onnx_reader import read_onnx

onnx = pytest.importorskip("onnx", reason="pip install 'jcw-latency[onnx]'")
from onnx import TensorProto, helper  # noqa: E402

Steps = Sequence[Any]


def step(op: str, *inputs: str, name: str = "", to: str = "", **attributes: Any) -> Any:
    """A node that reads the values ``inputs``; its value is called ``to``, by default after its type."""
    return helper.make_node(op, inputs, [to or op.lower()], name=name or op, **attributes)


def weights(**shapes: tuple[int, ...]) -> list[Any]:
    return [onnx.numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in shapes.items()]


def numbers(name: str, values: Any, kind: type = np.float32) -> Any:
    return onnx.numpy_helper.from_array(np.array(values, kind), name)


def model(
    steps: Steps, tensors: Sequence[Any] = (), shape: Sequence[int | str] = ("n", 4, 6, 6), opset: int = 17
) -> Any:
    """A model that reads ``x``; its output is that of the last step."""
    graph = helper.make_graph(
        list(steps),
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info(steps[-1].output[0], TensorProto.FLOAT, None)],
        list(tensors),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Network]:
    def write_and_read(*arguments: Any, **options: Any) -> Network:
        (tmp_path / "net.onnx").write_bytes(model(*arguments, **options).SerializeToString())
        return read_onnx(tmp_path / "net.onnx")

    return write_and_read


def operations(network: Network) -> list[str]:
    return [node.op for node in network][1:-1]


SIZE = {"kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1)}
AXES = numbers("axes", [2, 3], np.int64)
WINDOW = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
CONV = {"out_channels": 8, "groups": 1, "bias": False}


@pytest.mark.parametrize(
    ("node", "tensors", "op", "attributes"),
    [
        (step("Conv", "x", "w", **WINDOW), weights(w=(8, 4, 3, 3)), "conv2d", CONV | SIZE),
        (step("Conv", "x", "w", "b", auto_pad="SAME_UPPER"), weights(w=(8, 4, 3, 3), b=(8,)), "conv2d", CONV | SIZE | {"bias": True}),
        (step("Conv", "x", "w", "", auto_pad="VALID", strides=(2, 1)), weights(w=(8, 4, 3, 1)), "conv2d",
         CONV | {"kernel_size": (3, 1), "stride": (2, 1), "padding": (0, 0)}),
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
def test_one_operator(
    read: Callable[..., Network], node: Any, tensors: Sequence[Any], op: str, attributes: dict[str, Any]
) -> None:
    network = read([node], tensors)
    assert operations(network) == [op]
    assert dict(network.nodes[1].attributes) == attributes
    assert network.nodes[1].name == node.name
    assert (network.name, network.input_shape) == ("net", (4, 6, 6))


THREE, SIX, SIXTH = numbers("three", 3), numbers("six", 6), numbers("sixth", [1 / 6], np.float16)
RELU6_OF_SUM = [step("Add", "x", "three"), step("Clip", "add", "zero", "six")]
LIMITS = [THREE, SIX, SIXTH, numbers("zero", 0)]


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
def test_operators_that_belong_together(
    read: Callable[..., Network], steps: Steps, tensors: Sequence[Any], expected: list[str]
) -> None:
    assert operations(read(steps, tensors)) == expected


def test_factors_per_channel_come_second(read: Callable[..., Network]) -> None:
    network = read(
        [step("GlobalAveragePool", "x", to="g"), step("Sigmoid", "g"), step("Mul", "sigmoid", "x")]
    )
    assert network["Mul"].inputs == ("input", "Sigmoid")


FLAT = [step("Flatten", "x", to="flat")]


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
def test_fully_connected_layers(read: Callable[..., Network], steps: Steps, bias: bool) -> None:
    network = read([*FLAT, *steps], weights(w=(144, 10), wt=(10, 144), b=(10,)))
    assert operations(network) == ["flatten", "linear"]
    assert dict(network.nodes[-2].attributes) == {"out_features": 10, "bias": bias}


def test_shapes_that_exporters_compute(read: Callable[..., Network]) -> None:
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
    network = read(steps, [numbers("axis", [0], np.int64)])
    assert operations(network) == ["flatten"]
    assert network.num_classes == 144


def test_names_tell_where_layers_come_from(read: Callable[..., Network]) -> None:
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
    assert [node.name for node in read(steps, weights(**names))] == [
        "input", "layer1.0.conv1", "layer1.1.conv1", "re_lu", "output_2", "re.lu", "re.lu_2", "act.Relu_output_0",
        "layer1.0.conv1_2", "output",
    ]  # fmt: skip


def test_weights_among_the_inputs(read: Callable[..., Network], tmp_path: Path) -> None:
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


def test_further_files_are_not_followed(read: Callable[..., Network]) -> None:
    (weight,) = weights(w=(8, 4, 1, 1))
    assert read([step("Conv", "x", "w")], [elsewhere(weight)]).macs == 8 * 4 * 36
    with pytest.raises(JcwError, match="clips to None"):
        read([step("Clip", "x", "low")], [elsewhere(numbers("low", 0))])


@pytest.mark.parametrize(
    ("steps", "tensors", "message"),
    [
        ([step("Softmax", "x", name="/head/Softmax")], (), r"node '/head/Softmax' \(Softmax\): .*no place.*; there is: Add, AveragePool, "),
        ([helper.make_node("Relu", ["x"], ["y"], domain="com.microsoft")], (), r"\(com\.microsoft\.Relu\).*no place"),
        ([step("Conv", "x", "w", pads=(0, 0, 1, 1))], weights(w=(8, 4, 3, 3)), r"padding \(0, 0, 1, 1\).*not symmetric"),
        ([step("Conv", "x", "w", auto_pad="SAME_LOWER")], weights(w=(8, 4, 2, 2)), "not symmetric"),
        ([step("Conv", "x", "w", auto_pad="SOME")], weights(w=(8, 4, 2, 2)), "auto_pad is 'SOME'"),
        ([step("Conv", "x", "w", dilations=(2, 2))], weights(w=(8, 4, 3, 3)), r"dilations are \(2, 2\)"),
        ([step("Conv", "x", "w")], weights(w=(8, 4, 3)), "height and width"),
        ([step("Conv", "x", "w", group=2)], weights(w=(8, 4, 3, 3)), "2 groups do not fit 4 channels"),
        ([step("Conv", "x", "w", kernel_shape=(2, 2))], weights(w=(8, 4, 3, 3)), "kernel_shape"),
        ([step("Conv", "x", "w", strides=(0, 1))], weights(w=(8, 4, 3, 3)), r"strides \(0, 1\)"),
        ([step("Conv", "x", "w", strides="two")], weights(w=(8, 4, 3, 3)), "strides is 'two'"),
        ([step("Conv", "x", "w")], weights(w=(8, 4, 9, 9)), "does not fit"),
        ([step("Conv", "x", "w")], weights(w=(0, 4, 3, 3)), "out_channels = 0"),
        ([step("Conv", "x", "x")], (), "'x' depends on the input"),
        ([step("Conv", "x")], (), "expected input number 2"),
        ([step("MaxPool", "x", kernel_shape=(2, 2), strides=(5, 5), ceil_mode=1)], (), "ceil_mode"),
        ([step("MaxPool", "x")], (), "kernel_shape"),
        ([*FLAT, step("MaxPool", "flat", **WINDOW)], (), r"shape \(1, 144\)"),
        ([step("BatchNormalization", "x", *"abcd", training_mode=1)], (), "training_mode"),
        ([step("Gemm", "x", "w")], weights(w=(144, 10)), "do not fit"),
        ([*FLAT, step("Gemm", "flat", "w", transA=1)], weights(w=(144, 10)), "transA"),
        ([*FLAT, step("MatMul", "flat", "w")], weights(w=(100, 10)), r"\(100, 10\) do not fit"),
        ([*FLAT, step("MatMul", "flat", "flat")], (), "expected a constant"),
        ([step("ReduceMean", "x", axes=(1,))], (), "only one over height and width"),
        ([step("Clip", "x", min=-1.0, max=1.0)], (), "clips to -1.0 and 1.0"),
        ([step("Clip", "x", "x")], (), "expected a constant"),
        ([step("HardSigmoid", "x")], (), "alpha 0.2"),
        ([step("Add", "x", "half")], [numbers("half", 0.5)], "adds the constant 'half'"),
        ([step("Add", "x", "three"), step("Relu", "add")], LIMITS, r"step of 'Add' \(Add\) with a constant"),
        ([step("Mul", "x", "sixth")], LIMITS, "multiplies by a constant"),
        ([step("Div", "x", "zero")], LIMITS, "multiplies by a constant"),
        ([step("MaxPool", "x", kernel_shape=(2, 2), to="p"), step("Add", "x", "p")], (), "inputs differ in shape"),
        ([step("Concat", "x", "x", axis=2)], (), "along axis 2"),
        ([step("Flatten", "x", axis=2)], (), "from axis 2"),
        ([step("Reshape", "x", "to")], [numbers("to", [1, 2, -1], np.int64)], r"into \(1, 2, 72\); only flattening"),
        ([step("Reshape", "x", "to")], [numbers("to", [0.5])], "whole numbers"),
        ([step("Squeeze", "x", axes=(1,))], (), "of size 1"),
        ([step("Gather", "to", "far"), step("Reshape", "x", "gather")], [numbers("to", [1], np.int64), numbers("far", 4, np.int64)], "sizes"),
        ([step("Relu", "nothing")], (), "'nothing', which is not made before it"),
        ([step("Relu", "w")], weights(w=(3,)), "reads the constant 'w'"),
        ([step("Constant", value_string="a"), step("Relu", "constant")], (), "expected numbers"),
        ([step("Identity", "w")], weights(w=(3,)), "reads the constant 'identity'"),
    ],
)  # fmt: skip
def test_what_has_no_place_is_named(
    read: Callable[..., Network], steps: Steps, tensors: Sequence[Any], message: str
) -> None:
    with pytest.raises(JcwError, match=message) as caught:
        read(steps, tensors)
    assert "net.onnx: " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 3, "h", "w"), r"shape \(0?1, 3, 0, 0\).*fixed size"),
        ((), "fixed size"),
        ((1, 3, 2**40, 8), "not a valid shape"),
    ],
)
def test_the_input_has_a_fixed_size(
    read: Callable[..., Network], shape: Sequence[int | str], message: str
) -> None:
    with pytest.raises(JcwError, match=message):
        read([step("Relu", "x")], shape=shape)


def test_one_input_and_one_output(tmp_path: Path) -> None:
    proto = model([step("Relu", "x")])
    proto.graph.output.append(proto.graph.output[0])
    (tmp_path / "two.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(JcwError, match=r"two\.onnx: 2 outputs \('relu', 'relu'\), expected one"):
        read_onnx(tmp_path / "two.onnx")


def rich_model() -> bytes:
    """Every kind of message that the reader looks at."""
    steps = [
        step("Conv", "x", "stem.weight", "stem.bias", strides=(2, 2), **WINDOW),
        step("Constant", value=numbers("", 6)),
        step("Clip", "conv", "zero", "constant"),
        step("ReduceMean", "clip", "axes"),
        step("Sigmoid", "reducemean"),
        step("Mul", "sigmoid", "clip"),
        step("Reshape", "mul", "to"),
        step("Gemm", "reshape", "fc.weight", transB=1),
    ]
    tensors = [
        *weights(**{"stem.weight": (8, 4, 3, 3), "stem.bias": (8,), "fc.weight": (10, 72)}),
        numbers("zero", 0),
        AXES,
        numbers("to", [0, -1], np.int64),
    ]
    return model(steps, tensors).SerializeToString()


def test_damaged_files_are_one_line(tmp_path: Path) -> None:
    content, path = rich_model(), tmp_path / "damaged.onnx"
    # All but the few thousand zeros of weights.
    ends = [*range(0, 900, 3), *range(900, len(content), 997)]
    rng = np.random.default_rng(0)
    damaged = [content[:end] for end in ends]
    for _ in range(1000):
        flipped = np.frombuffer(content, np.uint8).copy()
        places = rng.integers(0, 900, rng.integers(1, 4))
        flipped[places] ^= 1 << rng.integers(0, 8, places.size, dtype=np.uint8)
        damaged.append(flipped.tobytes())
    messages = []
    for one in damaged:
        path.write_bytes(one)
        try:
            read_onnx(path)
        except JcwError as error:
            messages.append(str(error))
    assert len(messages) > len(damaged) / 2
    assert all(str(path) in message and "\n" not in message for message in messages)


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JcwError, match=r"none\.onnx: No such file"):
        read_onnx(tmp_path / "none.onnx")
    with (tmp_path / "large.onnx").open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(JcwError, match=r"large\.onnx: larger than 2 GiB"):
        read_onnx(tmp_path / "large.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(JcwError, match=r"pip install 'jcw-latency\[onnx\]'"):
        read_onnx(tmp_path / "none.onnx")


def test_profile_predict_and_check_an_onnx_file(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(rich_model())
    made = tmp_path / "made.npz"

    def jcw(*arguments: object) -> str:
        command = build(Registry({"synthetic": Plugin()}))
        done = CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    jcw("profile", tmp_path / "net.onnx", "--device", "synthetic", "-o", made, "--set", "widths=2")
    network = LatencyTable.read(made).network()
    assert network == read_onnx(tmp_path / "net.onnx")
    assert {v.name for v in SearchSpace.of(network).variables} == {"stem", "fc"}
    (tmp_path / "half.json").write_text('{"widths": {"stem": 4}, "densities": {"fc": 0.5}}')
    (row,) = json.loads(jcw("predict", made, tmp_path / "half.json", "--json"))
    assert row["latency_ms"] > 0
    found = json.loads(jcw("check", made, "--networks", 5, "--json").strip().splitlines()[-1])
    assert found["mape"] < 0.01
