"""Layer problems in words, and read back from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jcw_core.problem import LayerProblem


def describe(problem: LayerProblem) -> str:
    """A layer problem in a few words, e.g. ``conv2d 3x3/2 64 -> 128 at 56 x 56``.

    A second convolution stands last: ``conv2d 16 -> 96 at 112 x 112 + relu6, 3x3/2 depthwise``.
    """
    p = problem
    groups = " depthwise" if p.is_depthwise else f" groups {p.groups}" if p.groups > 1 else ""
    size = f" at {p.in_height} x {p.in_width}" if p.in_height * p.in_width > 1 else ""
    then = f",{_window(p.then)} depthwise{_extras(p.then)}" if p.then else ""
    return f"{p.op}{_window(p)}{groups} {p.in_channels} -> {p.out_channels}{size}{_extras(p)}{then}"


def _window(p: LayerProblem) -> str:
    window = "" if p.kernel_size == (1, 1) else f" {p.kernel_size[0]}x{p.kernel_size[1]}"
    return window if p.stride == (1, 1) else f"{window}/{p.stride[0]}"


def _extras(p: LayerProblem) -> str:
    return f"{' + residual' if p.residual else ''}{f' + {p.activation}' if p.activation else ''}"


def problem_from(document: Mapping[str, Any]) -> LayerProblem:
    """What ``dataclasses.asdict`` made of a problem, after a journey through JSON.

    Raises:
        NetworkError: impossible sizes, see ``LayerProblem``.
        TypeError, ValueError, AttributeError: another kind of document.
    """
    fields = _fields(document)
    then = fields.get("then")
    # One level and no more: what stands in the second convolution's own ``then`` is refused unread.
    return LayerProblem(**{**fields, "then": None if then is None else LayerProblem(**_fields(then))})


def _fields(document: Mapping[str, Any]) -> dict[str, Any]:
    pairs = ("kernel_size", "stride", "padding")
    return {name: tuple(value) if name in pairs else value for name, value in document.items()}
