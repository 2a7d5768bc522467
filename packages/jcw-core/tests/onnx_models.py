"""Small ONNX models, made node by node. Needs onnx."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="pip install 'jcw-core[onnx]'")
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


AXES = numbers("axes", [2, 3], np.int64)
WINDOW = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
FLAT = [step("Flatten", "x", to="flat")]
THREE, SIX, SIXTH = numbers("three", 3), numbers("six", 6), numbers("sixth", [1 / 6], np.float16)
LIMITS = [THREE, SIX, SIXTH, numbers("zero", 0)]


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
    return model(steps, tensors, opset=18).SerializeToString()
