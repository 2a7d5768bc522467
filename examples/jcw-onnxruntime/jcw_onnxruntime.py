"""The device ``onnxruntime``: this machine, timed through ONNX Runtime.

Every layer becomes a model of one operator, or of the two convolutions that count as one layer. Pruned
weights are zeros, and since this runtime does not skip them, a layer costs the same at every density:
that is what a table made with it says.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DeviceError
from jcw_core.hookspecs import hookimpl
from jcw_core.network import LayerProblem
from jcw_core.options import option
from jcw_core.protocols import DeviceInfo

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

OPSET, IR_VERSION = 13, 8

Array = NDArray[np.float32] | np.float32


@dataclass(frozen=True, slots=True)
class Options:
    """Keys of ``[device]`` beside ``name``."""

    threads: int = option(1, low=1, high=256, help="threads per image")
    repeats: int = option(5, low=1, high=1000, help="runs at each visit, of which the median counts")


class OnnxRuntime:
    """Registers the device."""

    name = "onnxruntime"
    options = Options

    def open(self, options: Options) -> OnnxRuntimeDevice:
        """Nothing to connect to."""
        return OnnxRuntimeDevice(options)


class OnnxRuntimeDevice:
    """The machine that runs this; see ``jcw_core.protocols.Device``."""

    model_format = "onnx"

    def __init__(self, options: Options) -> None:
        self._options = options

    def describe(self) -> DeviceInfo:
        """Processor, threads and version."""
        import onnxruntime

        versions = {"onnxruntime": onnxruntime.__version__}
        return DeviceInfo("onnxruntime", _cpu(), platform.machine(), self._options.threads, versions)

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        """Time layers, (rounds, len(problems)) seconds."""
        rng = np.random.default_rng(0)
        return self._timed([layer_model(problem, rng) for problem in problems], rounds)

    def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
        """Time whole models, (rounds, len(paths)) seconds."""
        return self._timed([str(path) for path in paths], rounds)

    def _timed(self, models: Sequence[bytes | str], rounds: int) -> NDArray[np.float64]:
        """Visit every model once per round, so that drift hits all alike."""
        calls = [self._call(model) for model in models]
        seconds = [[self._visit(*call) for call in calls] for _ in range(rounds)]
        return np.array(seconds, np.float64).reshape(rounds, len(models))

    def _call(self, model: bytes | str) -> tuple[InferenceSession, dict[str, NDArray[np.float32]]]:
        """A session and its inputs, for one image."""
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = self._options.threads
        settings.inter_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no class in common
            what = model if isinstance(model, str) else "a layer"
            raise DeviceError(f"ONNX Runtime refuses {what}: {' '.join(str(error).split())}") from None
        rng = np.random.default_rng(0)
        shapes = {i.name: [n if isinstance(n, int) else 1 for n in i.shape] for i in session.get_inputs()}
        return session, {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}

    def _visit(self, session: InferenceSession, inputs: dict[str, NDArray[np.float32]]) -> float:
        session.run(None, inputs)  # brings weights back into the caches
        times = [time.perf_counter()]
        for _ in range(self._options.repeats):
            session.run(None, inputs)
            times.append(time.perf_counter())
        return float(np.median(np.diff(times)))


OPERATORS = {
    "conv2d": "Conv", "conv_transpose2d": "ConvTranspose", "linear": "Gemm", "batch_norm": "BatchNormalization", "max_pool": "MaxPool", "avg_pool": "AveragePool",
    "global_avg_pool": "GlobalAveragePool", "flatten": "Flatten", "add": "Add", "mul": "Mul", "scale": "Mul", "concat": "Concat",
}  # fmt: skip
ACTIVATIONS: Mapping[str, tuple[str, Mapping[str, float], Mapping[str, float]]] = {
    "relu": ("Relu", {}, {}),
    "relu6": ("Clip", {"low": 0, "high": 6}, {}),
    "sigmoid": ("Sigmoid", {}, {}),
    "hardsigmoid": ("HardSigmoid", {}, {"alpha": 1 / 6, "beta": 0.5}),
    "leaky_relu": ("LeakyRelu", {}, {"alpha": 0.25}),
    "prelu": ("PRelu", {"slopes": 0.25}, {}),
}
"""Operator, constants that it reads and attributes."""
GATES = {"silu": "sigmoid", "hardswish": "hardsigmoid"}
"""Activations that multiply their input by another activation of it."""


def layer_model(problem: LayerProblem, rng: np.random.Generator) -> bytes:
    """An ONNX file of one layer: its operator, the residual that is added, the activation, what runs after it.

    Args:
        problem: the layer.
        rng: draws weights; as many as its density leaves out are zero.

    Raises:
        DeviceError: an operation that is no layer.
    """
    from onnx import TensorProto, helper, numpy_helper

    inputs, arrays, nodes = _inputs(problem), dict[str, Array](), list[Any]()

    def append(operator: str, *reads: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, reads, [f"value{len(nodes)}"], **attributes))
        return f"value{len(nodes) - 1}"

    def append_layer(p: LayerProblem, prefix: str, *reads: str) -> str:
        own = {prefix + name: array for name, array in _arrays(p, rng).items()}
        arrays.update(own)
        value = reads[0]
        if p.op in OPERATORS:
            value = append(OPERATORS[p.op], *reads, *own, **_attributes(p))
        elif p.op not in ACTIVATIONS and p.op not in GATES:
            raise DeviceError(f"{p.op!r} does no work that could be timed")
        if p.residual:
            inputs["other"] = _made(p)
            value = append("Add", value, "other")
        if activation := p.activation or ("" if p.op in OPERATORS else p.op):
            operator, constants, attributes = ACTIVATIONS[GATES.get(activation, activation)]
            arrays.update({name: np.float32(number) for name, number in constants.items()})
            active = append(operator, value, *constants, **attributes)
            value = append("Mul", value, active) if activation in GATES else active
        return value

    value, made = append_layer(problem, "", *inputs), _made(problem.then or problem)
    if problem.then is not None:
        value = append_layer(problem.then, "then.", value)
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, *shape))
        for name, shape in (inputs | {value: made}).items()
    ]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "layer", values[:-1], values[-1:], tensors)
    opset = helper.make_opsetid("", OPSET)
    return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION).SerializeToString())


def _inputs(p: LayerProblem) -> dict[str, tuple[int, ...]]:
    """Shape of every input of the operator, without the batch axis."""
    if p.op == "linear":
        return {"x": (p.in_channels,)}
    size = (p.in_height, p.in_width)
    if p.op == "concat" and p.in_channels > 1:
        half = p.in_channels // 2
        return {"x": (p.in_channels - half, *size), "second": (half, *size)}
    first: tuple[int, ...] = (p.in_channels, *size)
    second = {"add": size, "mul": size, "scale": (1, 1)}.get(p.op)
    return {"x": first} | ({"second": (p.in_channels, *second)} if second else {})


def _made(p: LayerProblem) -> tuple[int, ...]:
    """Shape of its output, without the batch axis and without what runs after it."""
    return (p.out_channels,) if p.op in ("linear", "flatten") else (p.out_channels, p.out_height, p.out_width)


def _arrays(p: LayerProblem, rng: np.random.Generator) -> dict[str, Array]:
    """Weights of the operator by name, in the order that it reads them."""
    if p.op == "batch_norm":
        return {name: np.ones(p.in_channels, np.float32) for name in ("weight", "bias", "mean", "variance")}
    if p.op not in ("conv2d", "conv_transpose2d", "linear"):
        return {}
    window = () if p.op == "linear" else p.kernel_size
    channels = p.out_channels, p.in_channels // p.groups
    if p.op == "conv_transpose2d":
        channels = p.in_channels, p.out_channels // p.groups
    weight = rng.standard_normal((*channels, *window), np.float32)
    weight[rng.random(weight.shape) >= p.density] = 0
    return {"weight": weight, "bias": rng.standard_normal(p.out_channels, np.float32)}


def _attributes(p: LayerProblem) -> dict[str, Any]:
    if p.op == "linear":
        return {"transB": 1}
    if p.op == "concat":
        return {"axis": 1}
    if p.op not in ("conv2d", "conv_transpose2d", "max_pool", "avg_pool"):
        return {}
    window = {"kernel_shape": p.kernel_size, "strides": p.stride, "pads": p.padding * (4 // len(p.padding))}
    convolution = {"group": p.groups, "dilations": p.dilation}
    own: dict[str, dict[str, Any]] = {
        "conv2d": convolution,
        "conv_transpose2d": convolution | {"output_padding": p.output_padding},
        "avg_pool": {"count_include_pad": 1},
    }
    return window | own.get(p.op, {})


def _cpu() -> str:
    """Model of the processor, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


@hookimpl
def jcw_register_devices() -> Sequence[OnnxRuntime]:
    """One kind of device."""
    return [OnnxRuntime()]
