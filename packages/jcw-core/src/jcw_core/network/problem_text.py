"""``describe``: a layer problem in a few words, for tables and errors."""

from __future__ import annotations

from jcw_core.network.problem import LayerProblem


def describe(problem: LayerProblem) -> str:
    """A layer problem in a few words, e.g. ``conv2d 3x3/2 64 -> 128 at 56 x 56``.

    A second convolution stands last: ``conv2d 16 -> 96 at 112 x 112 + relu6, 3x3/2 depthwise``.
    """
    p = problem
    groups = " depthwise" if p.is_depthwise else f" groups {p.groups}" if p.groups > 1 else ""
    size = f" at {p.in_height} x {p.in_width}" if p.in_height * p.in_width > 1 else ""
    size += f" to {p.size[0]} x {p.size[1]}" if any(p.size) else ""
    then = f",{_window(p.then)} depthwise{_extras(p.then)}" if p.then else ""
    return f"{p.op}{_window(p)}{groups} {p.in_channels} -> {p.out_channels}{size}{_extras(p)}{then}"


def _window(p: LayerProblem) -> str:
    window = "" if p.kernel_size == (1, 1) else f" {p.kernel_size[0]}x{p.kernel_size[1]}"
    stride = "" if p.stride == (1, 1) else f"/{p.stride[0]}"
    return f"{window}{stride}" + ("" if p.dilation == (1, 1) else f" dilated {p.dilation[0]}")


def _extras(p: LayerProblem) -> str:
    return f"{' + residual' if p.residual else ''}{f' + {p.activation}' if p.activation else ''}"
