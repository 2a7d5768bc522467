"""Padding in ONNX files: it joins the windows that read it, or becomes a convolution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_agreement import agrees, random, read
from onnx_models import helper, model, numbers, onnx, step

from jcw_core.errors import FormatError
from jcw_core.formats.onnx_reader import read_onnx

PADS = numbers("pads", [0, 0, 1, 2, 0, 0, 0, 1], np.int64)


def test_padding_becomes_part_of_the_windows_that_read_it(tmp_path: Path, rng: np.random.Generator) -> None:
    """As an input, as an attribute, once and again, and by as much as arithmetic on constants says."""
    tensors = [
        PADS,
        random("w", 5, 4, 3, 3, rng=rng),
        numbers("ninf", -np.inf),
        numbers("none", [0] * 8, np.int64),
    ]
    conv = {"kernel_shape": (3, 3), "strides": (2, 1)}
    cases = [
        [step("Pad", "x", "pads"), step("Conv", "pad", "w", pads=(0, 1, 2, 0), **conv)],
        [step("Pad", "x", "pads"), step("Conv", "pad", "w", auto_pad="SAME_UPPER", **conv)],
        [
            step("Pad", "x", "pads", to="p", name="outer"),
            step("Pad", "p", "pads"),
            step("Conv", "pad", "w", **conv),
        ],
        [step("Pad", "x", "none"), step("Relu", "pad")],
        [step("Relu", "x"), step("Pad", "relu", "pads", "ninf"), step("MaxPool", "pad", **conv)],
        [step("Pad", "x", "pads"), step("AveragePool", "pad", **conv)],
    ]
    for steps in cases:
        found = agrees(tmp_path, model(steps, tensors).SerializeToString())
        assert len(found.network.nodes) == 3 + (steps[0].op_type == "Relu")
    old = [step("Pad", "x", pads=(0, 0, 1, 2, 0, 0, 0, 1)), step("Conv", "pad", "w", **conv)]
    agrees(tmp_path, model(old, tensors, opset=9).SerializeToString())


def test_planes_that_others_read_are_padded_by_a_convolution(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    tensors = [PADS, random("w", 5, 4, 3, 3, rng=rng)]
    window = {"kernel_shape": (3, 3), "strides": (2, 1)}
    cases = [
        [step("Pad", "x", "pads"), step("Relu", "pad")],
        [step("Pad", "x", "pads"), step("MaxPool", "pad", **window)],
        [step("Pad", "x", "pads")],
        [step("Pad", "x", "pads"), step("Relu", "pad"), step("Add", "pad", "relu"), step("Conv", "add", "w")],
        [step("Pad", "x", "pads"), step("Concat", "pad", "pad", axis=1)],
    ]
    for steps in cases:
        found = agrees(tmp_path, model(steps, tensors).SerializeToString())
        assert [n.attributes["groups"] for n in found.network if n.name == "Pad"] == [4]


def test_channels_of_zeros_are_made_by_a_convolution(tmp_path: Path, rng: np.random.Generator) -> None:
    """Alone, with pixels as well, of planes that are padded already, and by axes."""
    tensors = [
        PADS, numbers("both", [0, 1, 1, 0, 0, 2, 0, 3], np.int64), numbers("two", [2, 0], np.int64),
        numbers("axis", [-3], np.int64), random("w", 5, 7, 3, 3, rng=rng),
    ]  # fmt: skip
    cases = [
        [step("Pad", "x", "both"), step("Conv", "pad", "w")],
        [step("Pad", "x", "both"), step("Relu", "pad")],
        [step("Pad", "x", "pads", to="p", name="outer"), step("Pad", "p", "both"), step("Conv", "pad", "w")],
        [step("Pad", "x", "two", "", "axis"), step("Relu", "pad")],
    ]
    for steps in cases:
        found = agrees(tmp_path, model(steps, tensors, opset=18).SerializeToString())
        assert next(n for n in found.network if n.name == "Pad").attributes["out_channels"] in (6, 7)


def test_padding_is_computed_from_constants(tmp_path: Path, rng: np.random.Generator) -> None:
    """As torch writes it: pairs of pixels from the last axis on, filled up with zeros and turned round."""
    whole = {
        "given": [2, 1, 0, 1], "four": [4], "pairs": [-1, 2], "last": [-1], "before": [-(2**62)], "first": [0], "flat": [-1],
        "two": 2, "three": 3,
    }  # fmt: skip
    zero = onnx.numpy_helper.from_array(np.array([0], np.int64))
    steps = [
        step("Shape", "x"),
        step("Gather", "shape", "two", to="height"),
        step("Mul", "height", "two", to="m"),
        step("Sub", "m", "height", to="six"),  # of six rows
        step("Div", "six", "three", to="d"),
        step("Add", "d", "two", to="a"),
        step("Unsqueeze", "a", "first", to="rest"),
        step("ConstantOfShape", "rest", value=zero, to="zeros"),
        step("Concat", "given", "zeros", axis=0),
        step("Reshape", "concat", "pairs"),
        step("Slice", "reshape", "last", "before", "first", "last"),
        step("Transpose", "slice", perm=(1, 0)),
        step("Reshape", "transpose", "flat", to="r2", name="again"),
        helper.make_node("Cast", ["r2"], ["made"], to=onnx.TensorProto.INT64),
        step("Pad", "x", "made"),
        step("Conv", "pad", "w"),
    ]
    tensors = [random("w", 5, 4, 3, 3, rng=rng), *(numbers(name, v, np.int64) for name, v in whole.items())]
    found = agrees(tmp_path, model(steps, tensors, shape=(1, 4, 6, 6)).SerializeToString())
    (conv,) = [node for node in found.network if node.op == "conv2d"]
    assert conv.attributes["padding"] == (0, 2, 1, 1)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([step("Pad", "x", "pads", "one"), step("Relu", "pad")], "padded with 1; only 0 has a place outside of windows"),
        ([step("Pad", "x", "pads", "one"), step("MaxPool", "pad", kernel_shape=(3, 3))], "padded with 1; only -inf has a place"),
        ([step("Pad", "x", "pads", "one"), step("Conv", "pad", "w")], "padded with 1; only 0 has a place"),
        ([step("Pad", "x", "pads", mode="reflect"), step("Conv", "pad", "w")], "pads by reflect"),
        ([step("Pad", "x", "images"), step("Conv", "pad", "w")], "only channels, rows and columns"),
        ([step("Pad", "x", "channels", "one"), step("Conv", "pad", "w")], "pads channels with 1; only 0"),
        ([step("Pad", "x", "less"), step("Conv", "pad", "w")], "only channels, rows and columns"),
        ([step("Pad", "x", "short"), step("Conv", "pad", "w")], "only channels, rows and columns"),
        ([step("ConstantOfShape", "huge"), step("Relu", "constantofshape")], "only short constants"),
        ([step("Floor", "x")], "only short constants"),
    ],
)  # fmt: skip
def test_padding_that_has_no_place(
    tmp_path: Path, steps: Any, message: str, rng: np.random.Generator
) -> None:
    tensors = [PADS, numbers("one", 1), random("w", 5, 4, 3, 3, rng=rng)]
    for name, values in {
        "images": [1, *[0] * 7],
        "channels": [0, 1, *[0] * 6],
        "less": [0, 0, -1, *[0] * 5],
        "short": [1, 1],
        "huge": [2**40, 2**40],
    }.items():
        tensors.append(numbers(name, values, np.int64))
    with pytest.raises(FormatError, match=message):
        read(tmp_path, model(steps, tensors).SerializeToString())


def test_a_mean_without_padding_counts_nothing_else(tmp_path: Path) -> None:
    for options in ({}, {"pads": (0, 0, 0, 0)}, {"auto_pad": "SAME_UPPER"}):
        steps = [
            step("AveragePool", "x", kernel_shape=(2, 2), strides=(2, 2), count_include_pad=0, **options)
        ]
        agrees(tmp_path, model(steps).SerializeToString())


def test_a_mean_without_its_padding_has_no_place(tmp_path: Path) -> None:
    content = model([step("AveragePool", "x", kernel_shape=(3, 3), pads=(1, 1, 1, 1))]).SerializeToString()
    with pytest.raises(FormatError, match="count_include_pad"):
        read(tmp_path, content)
    assert read_onnx(tmp_path / "net.onnx").shapes  # costs the same


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
