"""Operators with weights or windows: convolutions, fully connected layers, batch norm and pooling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import inf

import numpy as np

from jcw_core.errors import FormatError
from jcw_core.formats.onnx_reader.graph import Constant, Operator
from jcw_core.formats.onnx_reader.translation import Layer, Part, Translation, Value
from jcw_core.formats.windows import with_last_windows
from jcw_core.network.operations import Attribute, span, transposed_size


def _conv(net: Translation, operator: Operator) -> Value:
    (source, outer), kernel = net.padded(operator.input(0)), net.constant(operator.input(1))
    weight = kernel.dims
    channels, groups = net.shape(source)[1], operator.integer("group", 1)
    if len(weight) != 4:
        raise FormatError(
            f"weights have the shape {weight}; only convolutions over height and width have a place"
        )
    if groups < 1 or weight[1] * groups != channels:
        raise FormatError(f"weights of shape {weight} in {groups} groups do not fit {channels} channels")
    dilation = _dilation(operator)
    window = _window(net, operator, source, outer, weight[2:], dilation)
    attributes = {**window, "out_channels": weight[0], "groups": groups, "dilation": dilation}
    return _layer(net, operator, source, Layer("conv2d", attributes, {"weight": kernel}))


def _dilation(operator: Operator) -> tuple[int, int]:
    height, width = operator.integers("dilations", (1, 1))
    if min(height, width) < 1:
        raise FormatError(f"dilations {(height, width)} are impossible")
    return height, width


def _layer(net: Translation, operator: Operator, source: str, layer: Layer) -> Value:
    """A layer with the bias that it reads, or a part that one may follow."""
    part = Part("layer", source, operator, layer)
    return net.make(part, bias=net.constant(operator.input(2))) if operator.has_input(2) else part


def _window(
    net: Translation,
    operator: Operator,
    source: str,
    outer: tuple[int, int, int, int],
    default: tuple[int, ...] = (),
    dilation: tuple[int, int] = (1, 1),
) -> Mapping[str, Attribute]:
    """Kernel, stride and padding.

    Args:
        net: the network.
        operator: with the window.
        source: the node that it reads.
        outer: padding that an operator before it puts around that, (top, left, bottom, right).
        default: the kernel that weights have.
        dilation: the one that has a place.
    """
    shape = net.shape(source)
    if len(shape) != 4:
        raise FormatError(f"reads a value of shape {shape}, expected (images, channels, height, width)")
    kernel = operator.integers("kernel_shape", default or (0, 0))
    stride = operator.integers("strides", (1, 1))
    if default not in ((), kernel) or min(*kernel, *stride) < 1:
        raise FormatError(f"kernel_shape {kernel} with strides {stride} is impossible")
    if (dilations := operator.integers("dilations", (1, 1))) != dilation:
        raise FormatError(f"dilations are {dilations}; only {dilation} has a place")
    size = shape[2] + outer[0] + outer[2], shape[3] + outer[1] + outer[3]
    padding = _padding(operator, size, span((kernel[0], kernel[1]), dilation), stride)
    left_out = operator.op == "AveragePool" and not operator.integer("count_include_pad", 0)
    if net.exact and left_out and any(padding):
        raise FormatError(
            f"leaves the padding {padding} out of its mean; only a mean that counts it (count_include_pad 1) has a place"
        )
    if operator.integer("ceil_mode", 0):
        wider = with_last_windows(padding, size, kernel, stride)
        if wider != padding and operator.op == "AveragePool":
            raise FormatError("ceil_mode adds windows at the edge; of means only ceil_mode 0 has a place")
        padding = wider
    both = tuple(a + b for a, b in zip(outer, padding, strict=True))
    return {"kernel_size": kernel, "stride": stride, "padding": both}


def _padding(
    operator: Operator, size: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...]
) -> tuple[int, ...]:
    mode = operator.attributes.get("auto_pad", "NOTSET")
    if mode == "VALID":
        return (0, 0, 0, 0)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        total = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(size, kernel, stride, strict=True)]
        less, more = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
        return less + more if mode == "SAME_UPPER" else more + less
    if mode in ("NOTSET", ""):
        return operator.integers("pads", (0, 0, 0, 0))
    raise FormatError(f"auto_pad is {mode!r}, expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")


def _conv_transpose(net: Translation, operator: Operator) -> Value:
    source, kernel = net.node(operator.input(0)), net.constant(operator.input(1))
    stride, groups = operator.integers("strides", (1, 1)), operator.integer("group", 1)
    shape = net.shape(source)
    if len(kernel.dims) != 4 or kernel.dims[0] != shape[1] or groups < 1 or shape[1] % groups:
        raise FormatError(
            f"weights of shape {kernel.dims} in {groups} groups do not fit a value of shape {shape}; only transposed "
            "convolutions over height and width have a place"
        )
    window = _transposed_window(operator, shape[2:], kernel.dims[2:], stride)
    plain = not any((*window["padding"], *window["output_padding"])) and window["dilation"] == (1, 1)  # type: ignore[misc]
    if plain and groups == 1 and kernel.dims[2:] == stride == (stride[0],) * 2:
        return _squares(net, operator, source, kernel, stride[0])
    made = kernel.dims[1] * groups
    values, parts = kernel.values, (groups, -1, *kernel.dims[1:])
    turned = (made, shape[1] // groups, *kernel.dims[2:])
    if values is not None:
        values = values.reshape(parts).swapaxes(1, 2).reshape(turned)
    weight = Constant(turned, values, kernel.precision)
    attributes = {**window, "out_channels": made, "groups": groups}
    return _layer(net, operator, source, Layer("conv_transpose2d", attributes, {"weight": weight}))


def _transposed_window(
    operator: Operator, size: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...]
) -> dict[str, Attribute]:
    """Kernel, stride, padding and the like of a transposed convolution, whose padding may follow from the output's size."""
    more, dilation = operator.integers("output_padding", (0, 0)), _dilation(operator)
    if operator.integers("kernel_shape", kernel) != kernel or min(*stride, *kernel) < 1:
        raise FormatError(f"a kernel {kernel} with strides {stride} is impossible")
    mode, padding = operator.attributes.get("auto_pad", "NOTSET"), operator.integers("pads", (0, 0, 0, 0))
    wanted = operator.integers("output_shape", ())[-2:]
    if mode in ("SAME_UPPER", "SAME_LOWER") and not wanted:
        wanted = tuple(n * s for n, s in zip(size, stride, strict=True))
    if wanted:
        whole = transposed_size(size, span((kernel[0], kernel[1]), dilation), stride, (0,) * 4, more)
        total = [n - w for n, w in zip(whole, wanted, strict=True)]
        less, rest = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
        padding = less + rest if mode == "SAME_UPPER" else rest + less
    if min(padding) < 0:
        raise FormatError(f"makes planes of {wanted}, more than its windows reach")
    return {
        "kernel_size": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "output_padding": more,
    }


def _squares(net: Translation, operator: Operator, source: str, kernel: Constant, factor: int) -> Value:
    """A transposed convolution whose windows do not overlap: a 1 x 1 one that makes the pixels of each square as channels."""
    inputs, outputs = kernel.dims[:2]
    made = outputs * factor**2
    values = None
    if kernel.values is not None:
        values = kernel.values.transpose(1, 2, 3, 0).reshape(made, inputs, 1, 1)
    weights = {"weight": Constant((made, inputs, 1, 1), values)}
    if operator.has_input(2):
        bias = net.constant(operator.input(2)).values
        weights["bias"] = Constant((made,), None if bias is None else np.repeat(bias, factor**2))
    point = net.append_weighted(
        operator, "conv2d", source, weights,
        out_channels=made, kernel_size=(1, 1), stride=(1, 1), padding=(0, 0), groups=1, bias="bias" in weights,
    )  # fmt: skip
    return net.append(operator, "pixel_shuffle", point, factor=factor)


def _pool(op: str, net: Translation, operator: Operator) -> Value:
    source, outer = net.padded(operator.input(0), -inf if op == "max_pool" else 0.0)
    return net.append(operator, op, source, **_window(net, operator, source, outer))


def _batch_norm(net: Translation, operator: Operator) -> Value:
    if operator.integer("training_mode", 0):
        raise FormatError("training_mode is 1; export the network in evaluation mode")
    keys = ("weight", "bias", "running_mean", "running_var")
    weights = {key: net.constant(operator.input(place)) for place, key in enumerate(keys, start=1)}
    eps = operator.attributes.get("epsilon", 1e-5)
    return net.append_weighted(operator, "batch_norm", net.node(operator.input(0)), weights, eps=eps)


def _gemm(net: Translation, operator: Operator) -> Value:
    if operator.integer("transA", 0):
        raise FormatError("transA is 1; only a product of values by weights has a place")
    return _linear(net, operator, transposed=bool(operator.integer("transB", 0)))


def _times(constant: Constant, factor: object) -> Constant:
    """A constant times Gemm's alpha or beta, which are 1 by default."""
    if not isinstance(factor, float):
        raise FormatError(f"alpha or beta is {factor!r}, expected a number")
    if constant.values is None or factor == 1:
        return constant
    return Constant(constant.dims, constant.values * np.float32(factor), constant.precision)


def _linear(net: Translation, operator: Operator, *, transposed: bool) -> Value:
    source, matrix = net.node(operator.input(0)), net.constant(operator.input(1))
    matrix = _times(matrix, operator.attributes.get("alpha", 1.0))
    weight = matrix.dims
    inputs, outputs = (
        weight[::-1] if transposed and len(weight) == 2 else weight if len(weight) == 2 else (0, 0)
    )
    if net.shape(source)[1:] != (inputs,):
        raise FormatError(f"weights of shape {weight} do not fit a value of shape {net.shape(source)}")
    if not transposed:
        matrix = Constant(weight[::-1], None if matrix.values is None else matrix.values.T)
    layer = Layer("linear", {"out_features": outputs}, {"weight": matrix})
    part = Part("layer", source, operator, layer)
    if operator.op == "MatMul" or not operator.has_input(2):
        return part
    bias = net.constant(operator.input(2))
    return net.make(part, bias=_times(bias, operator.attributes.get("beta", 1.0)))


def _global_mean(net: Translation, operator: Operator) -> Value:
    return net.append(operator, "global_avg_pool", net.node(operator.input(0)))


def _mean(net: Translation, operator: Operator) -> Value:
    """ReduceMean over height and width, which an attribute names or, in later versions, an input."""
    source = net.node(operator.input(0))
    rank = len(net.shape(source))
    axes = net.axes(operator)
    if rank != 4 or sorted(axis % rank for axis in axes) != [2, 3]:
        raise FormatError(
            f"a mean over the axes {axes} of {rank}; only one over height and width has a place"
        )
    pooled = net.append(operator, "global_avg_pool", source)
    return pooled if operator.integer("keepdims", 1) else net.append(operator, "flatten", pooled)


LAYERS: Mapping[str, Callable[[Translation, Operator], Value]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": partial(_linear, transposed=False),
    "BatchNormalization": _batch_norm,
    "MaxPool": partial(_pool, "max_pool"),
    "AveragePool": partial(_pool, "avg_pool"),
    "GlobalAveragePool": _global_mean,
    "ReduceMean": _mean,
}
