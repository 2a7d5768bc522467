"""What an ONNX file computes: by onnxruntime where that is installed, else by onnx's own reference, in numpy."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import JcwError
from jcw_core.formats.onnx_reader.file import SOFTMAX_OF_ONE_AXIS, opset_of

if TYPE_CHECKING:
    from onnx import ModelProto

Array = NDArray[Any]
Runtime = Callable[["ModelProto", Array], Sequence[Array]]
"""The outputs of a file of one input for one value of it."""


def runtimes() -> dict[str, Runtime]:
    """What can run files here, by name, the best first."""
    fast = {"onnxruntime": _by_onnxruntime} if importlib.util.find_spec("onnxruntime") else {}
    return {**fast, "onnx's reference": _by_reference}


def _by_onnxruntime(file: ModelProto, value: Array) -> Sequence[Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # It runs once, and as it is written; of what is odd in it the importer speaks.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        file.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found: Sequence[Array] = session.run(None, {session.get_inputs()[0].name: value})
    return found


def _by_reference(file: ModelProto, value: Array) -> Sequence[Array]:
    from onnx.reference import ReferenceEvaluator

    tensors = {tensor.name for tensor in file.graph.initializer}
    (name,) = (entry.name for entry in file.graph.input if entry.name not in tensors)
    with np.errstate(all="ignore"):
        evaluator = ReferenceEvaluator(file, new_ops=_operators(opset_of(file)))
        return list(evaluator.run(None, {name: value}))


def _operators(opset: int) -> list[type]:
    """Operators that the reference computes only as their newest versions do, or with all windows in memory at once."""
    from onnx.reference.op_run import OpRun

    class BatchNormalization(OpRun):
        op_domain = ""

        def _run(self, x: Array, *statistics: Array, epsilon: float = 1e-5, **other: Any) -> tuple[Array]:
            scale, bias, mean, variance = (a.reshape(-1, *[1] * (x.ndim - 2)) for a in statistics)
            return (((x - mean) / np.sqrt(variance + epsilon) * scale + bias).astype(x.dtype),)

    class Softmax(OpRun):
        op_domain = ""

        def _run(self, x: Array, **defaults: Any) -> tuple[Array]:
            is_old = opset < SOFTMAX_OF_ONE_AXIS
            # The defaults are those of the newest version.
            given = {attribute.name: attribute.i for attribute in self.onnx_node.attribute}
            axis = given.get("axis", 1 if is_old else -1)
            flat = x.reshape(*x.shape[:axis], -1) if is_old else x
            along = -1 if is_old else axis
            powers = np.exp(flat - flat.max(axis=along, keepdims=True))
            return ((powers / powers.sum(axis=along, keepdims=True)).reshape(x.shape),)

    class Conv(OpRun):
        op_domain = ""

        def _run(self, x: Array, weight: Array, bias: Array | None = None, **window: Any) -> tuple[Array]:
            return (_convolved(x, weight, bias, window),)

    return [BatchNormalization, Softmax, Conv]


def _convolved(x: Array, weight: Array, bias: Array | None, window: Mapping[str, Any]) -> Array:
    """A convolution as a sum over the taps of its kernel."""
    group, kernel = window.get("group") or 1, weight.shape[2:]
    stride, steps = window.get("strides") or (1, 1), window.get("dilations") or (1, 1)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, steps, strict=True)]
    before, after = _padding(window, x.shape[2:], reach, stride)
    x = np.pad(x, ((0, 0), (0, 0), *zip(before, after, strict=True)))
    rows, columns = ((n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, stride, strict=True))
    images, outputs = len(x), len(weight)
    grouped = weight.reshape(group, outputs // group, -1, *kernel)
    made = np.zeros((images, group, outputs // group, rows * columns), np.float32)
    for i, j in np.ndindex(*kernel):
        top, left = i * steps[0], j * steps[1]
        seen = x[
            :, :, top : top + rows * stride[0] : stride[0], left : left + columns * stride[1] : stride[1]
        ]
        made += grouped[..., i, j] @ seen.reshape(images, group, -1, rows * columns)
    made = made.reshape(images, outputs, rows, columns)
    return (made if bias is None else made + bias.reshape(-1, 1, 1)).astype(x.dtype)


def _padding(
    window: Mapping[str, Any], size: Sequence[int], reach: Sequence[int], stride: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """Pixels before and after each axis."""
    mode = window.get("auto_pad") or "NOTSET"
    if mode.startswith("SAME"):
        total = [max((-(-n // s) - 1) * s + r - n, 0) for n, r, s in zip(size, reach, stride, strict=True)]
        less, more = [t // 2 for t in total], [t - t // 2 for t in total]
        return (less, more) if mode == "SAME_UPPER" else (more, less)
    pads = window.get("pads") if mode == "NOTSET" else None
    return (pads[:2], pads[2:]) if pads else ((0, 0), (0, 0))


def evaluate(runtime: Runtime, file: ModelProto, value: Array) -> list[Array]:
    """The outputs of a file, flat, (images, values).

    Raises:
        JcwError: the runtime does not run it; the message gives its reason.
    """
    try:
        return [np.asarray(found).reshape(len(value), -1) for found in runtime(file, value)]
    except Exception as error:  # runtimes raise errors of many kinds
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise JcwError(f"{reason:.200}") from None
