"""ONNX files that cannot be read: operators that no network has, and damaged files, are one error each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import FLAT, LIMITS, WINDOW, Steps, helper, model, numbers, rich_model, step, weights

from jcw_core.errors import JcwError
from jcw_core.formats.onnx_reader import read_onnx
from jcw_core.network.graph import Network


@pytest.mark.parametrize(
    ("steps", "tensors", "message"),
    [
        ([step("Erf", "x", name="/head/Erf")], (), r"node '/head/Erf' \(Erf\): .*no place.*; there is: Add, AveragePool, "),
        ([helper.make_node("Relu", ["x"], ["y"], domain="com.microsoft")], (), r"node 'y' \(com\.microsoft\.Relu\).*no place"),
        ([step("Conv", "x", "w", pads=(0, 0, -1, 1))], weights(w=(8, 4, 3, 3)), r"padding = \(0, 0, -1, 1\)"),
        ([step("Conv", "x", "w", auto_pad="SOME")], weights(w=(8, 4, 2, 2)), "auto_pad is 'SOME'"),
        ([step("Conv", "x", "w", dilations=(4, 1))], weights(w=(8, 4, 3, 3)), "does not fit"),
        ([step("Conv", "x", "w", dilations=(0, 1))], weights(w=(8, 4, 3, 3)), r"dilations \(0, 1\) are impossible"),
        ([step("MaxPool", "x", kernel_shape=(2, 2), dilations=(2, 2))], (), r"dilations are \(2, 2\)"),
        ([step("ConvTranspose", "x", "w", group=3)], weights(w=(4, 4, 3, 3)), "in 3 groups do not fit"),
        ([step("ConvTranspose", "x", "w")], weights(w=(5, 4, 3, 3)), "do not fit a value"),
        ([step("ConvTranspose", "x", "w", pads=(5, 5, 5, 5))], weights(w=(4, 4, 3, 3)), "leaves nothing"),
        ([step("ConvTranspose", "x", "w", output_padding=(1, 0))], weights(w=(4, 4, 3, 3)), "output_padding"),
        ([step("ConvTranspose", "x", "w", output_shape=(90, 90))], weights(w=(4, 4, 3, 3)), "more than its windows reach"),
        ([step("Conv", "x", "w")], weights(w=(8, 4, 3)), "height and width"),
        ([step("Conv", "x", "w", group=2)], weights(w=(8, 4, 3, 3)), "2 groups do not fit 4 channels"),
        ([step("Conv", "x", "w", kernel_shape=(2, 2))], weights(w=(8, 4, 3, 3)), "kernel_shape"),
        ([step("Conv", "x", "w", strides=(0, 1))], weights(w=(8, 4, 3, 3)), r"strides \(0, 1\)"),
        ([step("Conv", "x", "w", strides="two")], weights(w=(8, 4, 3, 3)), "strides is 'two'"),
        ([step("Conv", "x", "w")], weights(w=(8, 4, 9, 9)), "does not fit"),
        ([step("Conv", "x", "w")], weights(w=(0, 4, 3, 3)), "out_channels = 0"),
        ([step("Conv", "x", "x")], (), "'x' depends on the input"),
        ([step("Conv", "x")], (), "expected input number 2"),
        ([step("AveragePool", "x", kernel_shape=(2, 2), strides=(5, 5), ceil_mode=1)], (), "ceil_mode"),
        ([step("MaxPool", "x")], (), "kernel_shape"),
        ([*FLAT, step("MaxPool", "flat", **WINDOW)], (), r"shape \(1, 144\)"),
        ([step("BatchNormalization", "x", *"abcd", training_mode=1)], (), "training_mode"),
        ([step("Gemm", "x", "w")], weights(w=(144, 10)), "do not fit"),
        ([*FLAT, step("Gemm", "flat", "w", transA=1)], weights(w=(144, 10)), "transA"),
        ([*FLAT, step("MatMul", "flat", "w")], weights(w=(100, 10)), r"\(100, 10\) do not fit"),
        ([*FLAT, step("MatMul", "flat", "flat")], (), "expected a constant"),
        ([step("ReduceMean", "x", axes=(1,))], (), "only one over height and width"),
        ([step("Clip", "x", min=2.0, max=1.0)], (), "clips to 2.0 and 1.0"),
        ([step("Softmax", "x")], (), "along axis -1"),
        ([step("Clip", "x", "x")], (), "expected a constant"),
        ([step("Add", "x", "row")], weights(row=(6,)), r"constant of shape \(6,\); only one value, or one per channel"),
        ([*FLAT, step("Add", "flat", "half")], [numbers("half", 0.5)], "only planes have a place"),
        ([step("Div", "x", "zero")], LIMITS, "divides by zero"),
        ([step("MaxPool", "x", kernel_shape=(2, 2), to="p"), step("Add", "x", "p")], (), "inputs differ in shape"),
        ([step("Concat", "x", "x", axis=2)], (), "along axis 2"),
        ([step("Flatten", "x", axis=2)], (), "from axis 2"),
        ([step("Reshape", "x", "to")], [numbers("to", [1, 2, -1], np.int64)], r"into \(1, 2, 72\); only flattening"),
        ([step("Reshape", "x", "to")], [numbers("to", [0.5])], "whole numbers"),
        ([step("Squeeze", "x", axes=(1,))], (), "of size 1"),
        ([step("Gather", "to", "far"), step("Reshape", "x", "gather")], [numbers("to", [1], np.int64), numbers("far", 4, np.int64)], "sizes"),
        ([step("Resize", "x", "", "", "to", antialias=1, mode="linear")], [numbers("to", [1, 4, 3, 3], np.int64)], "antialias = 1"),
        ([step("Resize", "x", "", "", "to", keep_aspect_ratio_policy="not_larger")], [numbers("to", [1, 4, 3, 3], np.int64)], "keep_aspect"),
        ([step("Resize", "x", "", "", "to")], [numbers("to", [1, 2, 3, 3], np.int64)], r"to \(1, 2, 3, 3\); only whole"),
        ([step("Resize", "x", "", "by")], [numbers("by", [1, 1, 1.3, 2])], "only whole heights and widths"),
        ([step("Resize", "x", "", "by")], [numbers("by", [1, 1, np.nan, np.inf])], r"to \(1, 4, nan, inf\); only whole"),
        ([step("Resize", "x", "", "by", axes=(2, 3))], [numbers("by", [1, 1, 2, 2])], "2 axes of .* to 4 sizes"),
        ([step("Resize", "x", "", "by", mode="cubic")], [numbers("by", [1, 1, 2, 2])], "by cubic with half_pixel"),
        ([step("Resize", "x", "", "by")], [numbers("by", [1, 1, 1.5, 2])], r"by nearest with half_pixel \(round_prefer_floor\)"),
        ([step("Relu", "nothing")], (), "'nothing', which is not made before it"),
        ([step("Relu", "w")], weights(w=(3,)), "reads the constant 'w'"),
        ([step("Constant", value_string="a"), step("Relu", "constant")], (), "expected numbers"),
        ([step("Identity", "w")], weights(w=(3,)), "reads the constant 'identity'"),
    ],
)  # fmt: skip
def test_operators_that_no_network_has_are_named(
    read_model: Callable[..., Network], steps: Steps, tensors: Sequence[Any], message: str
) -> None:
    with pytest.raises(JcwError, match=message) as caught:
        read_model(steps, tensors)
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
    read_model: Callable[..., Network], shape: Sequence[int | str], message: str
) -> None:
    with pytest.raises(JcwError, match=message):
        read_model([step("Relu", "x")], shape=shape)


def test_one_input_and_one_output(tmp_path: Path) -> None:
    proto = model([step("Relu", "x")])
    proto.graph.output.append(proto.graph.output[0])
    (tmp_path / "two.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(JcwError, match=r"two\.onnx: 2 outputs \('relu', 'relu'\), expected one"):
        read_onnx(tmp_path / "two.onnx")


@pytest.mark.filterwarnings("ignore::jcw_core.errors.JcwWarning")
def test_damaged_files_are_one_error(tmp_path: Path) -> None:
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
    with pytest.raises(JcwError, match=r"pip install 'jcw-core\[onnx\]'"):
        read_onnx(tmp_path / "none.onnx")
