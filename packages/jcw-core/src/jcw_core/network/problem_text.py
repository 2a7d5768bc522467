"""Layer problems in words, and read back from JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jcw_core.network.problem import LayerProblem


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
    for name, value in document.items():
        if name in _KINDS and not _KINDS[name](value):
            raise TypeError(f"{name} of a layer is {value!r:.40}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_is_whole, value))


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("op", "activation"), _is_text),
    **dict.fromkeys(("in_channels", "in_height", "in_width", "out_channels", "groups"), _is_whole),
    **dict.fromkeys(("kernel_size", "stride", "padding"), _is_pair),
    "density": lambda value: isinstance(value, float) or _is_whole(value),
    "residual": lambda value: isinstance(value, bool),
}
"""What each key of a problem must be, beside the second convolution."""
