"""``LayerProblem``: one layer shape that a device has to time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from jcw_core.errors import NetworkError
from jcw_core.network.operations import (
    ACTIVATIONS,
    CONVOLUTIONS,
    LAYERS,
    OPERATIONS,
    sides_of,
    span,
    too_wide,
    transposed_size,
)
from jcw_core.shown import call_of

_WINDOWED = CONVOLUTIONS | {"max_pool", "avg_pool"}
_WEIGHTED = frozenset({"conv2d", "linear", "batch_norm"})

_RESIZING = frozenset({"resize_nearest", "resize_bilinear"})
_ENLARGING = _RESIZING | {"pixel_shuffle"}

_TAKEN_BY = {
    "kernel_size": _WINDOWED,
    "stride": _WINDOWED | _ENLARGING,
    "padding": _WINDOWED,
    "groups": CONVOLUTIONS,
    "dilation": CONVOLUTIONS,
    "output_padding": frozenset({"conv_transpose2d"}),
    "size": _RESIZING,
    "activation": (_WINDOWED - {"conv_transpose2d"}) | _WEIGHTED | {"add", "mul", "scale"},
    "residual": _WEIGHTED,
}
"""The operations for which a field may differ from its default."""


@dataclass(frozen=True, slots=True)
class LayerProblem:
    """A fused layer (see ``jcw_core.network.layers``) stripped of its name: equal problems cost the same.

    Args:
        op: an operation of ``jcw_core.network.operations``, or ``"scale"`` for a product with one value per channel.
        in_channels, in_height, in_width: input of one image; features x 1 x 1 for ``linear``. For
            ``concat`` the channels of all inputs together.
        out_channels: channels (or features) of the output.
        kernel_size, stride, padding: (height, width); (1, 1), (1, 1), (0, 0) where there is no window. A padding whose
            sides differ is (top, left, bottom, right). The stride of a resizing operation is its factor.
        groups: of a convolution; equal to both channel counts when it is depthwise.
        density: share of the weight groups kept, 0 to 1.
        activation: fused operation, or ``""``; ``"prelu"`` whether there is one slope or one per channel.
        residual: True when a second input in the output's shape is added before the activation.
        then: the depthwise convolution that runs on its output in the same layer. Only an ungrouped
            1 x 1 convolution of stride 1, without padding and residual, has one.
        dilation: of a convolution, (height, width).
        output_padding: of a transposed convolution, (height, width).
        size: that a resizing operation makes, (height, width), where it has no whole factor.

    Raises:
        NetworkError: a size below 1, a window larger than the input, an unknown operation, a field that the
            operation has no use for, a density outside [0, 1], a second convolution that does not go with the first.
    """

    op: str
    in_channels: int
    in_height: int
    in_width: int
    out_channels: int
    kernel_size: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    groups: int = 1
    density: float = 1.0
    activation: str = ""
    residual: bool = False
    then: LayerProblem | None = None
    dilation: tuple[int, int] = (1, 1)
    output_padding: tuple[int, int] = (0, 0)
    size: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        sizes = (
            self.in_channels, self.in_height, self.in_width, self.out_channels,
            *self.kernel_size, *self.stride, *self.dilation, self.groups,
        )  # fmt: skip
        amounts = (*self.padding, *self.output_padding, *self.size)
        if min(sizes) < 1 or min(amounts) < 0 or not 0 <= self.density <= 1:
            raise NetworkError(f"impossible layer problem: {self}")
        if self.op not in OPERATIONS and self.op != "scale":
            raise NetworkError(f"layer problem of unknown operation {self.op!r}")
        if self.activation and self.activation not in ACTIVATIONS | {"prelu"}:
            raise NetworkError(f"layer problem with unknown activation {self.activation!r}")
        self._check_fields()
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise NetworkError(f"layer problem whose channels do not divide into its groups: {self}")
        limits = (max(*both) for both in zip(self.stride, self.dilation, strict=True))
        if any(more >= limit for more, limit in zip(self.output_padding, limits, strict=True)):
            raise NetworkError(f"layer problem whose output_padding is no less than its stride: {self}")
        if min(self.out_height, self.out_width) < 1:
            raise NetworkError(f"layer problem whose window does not fit its input: {self}")
        wide = too_wide(self.padding, self.kernel_size)
        if wide and self.op in ("max_pool", "avg_pool"):
            raise NetworkError(f"layer problem whose padding is {wide}: {self}")
        if self.activation == "prelu" and self.op not in _WEIGHTED and self.out_height * self.out_width == 1:
            raise NetworkError(f"layer problem with slopes after an operation that makes a vector: {self}")
        if self.then is not None:
            self._check_second(self.then)

    def __repr__(self) -> str:
        return call_of(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> LayerProblem:
        """What ``dataclasses.asdict`` made of a problem, after a journey through JSON.

        Raises:
            NetworkError: impossible sizes.
            TypeError, ValueError, AttributeError: another kind of document.
        """
        values = _values(document)
        then = values.get("then")
        # One level and no more: what stands in the second convolution's own ``then`` is refused unread.
        return cls(**{**values, "then": None if then is None else cls(**_values(then))})

    def _check_fields(self) -> None:
        for field in fields(self):
            if (
                self.op not in _TAKEN_BY.get(field.name, (self.op,))
                and getattr(self, field.name) != field.default
            ):
                raise NetworkError(f"layer problem with {field.name}, which {self.op} does not take: {self}")
        if self.op == "linear" and (self.in_height, self.in_width) != (1, 1):
            raise NetworkError(f"layer problem of a linear layer whose input is not flat: {self}")
        if any(self.size) and (min(self.size) < 1 or self.stride != (1, 1)):
            raise NetworkError(f"layer problem of a size that is none, or beside a factor: {self}")
        made = self.in_channels * (self.in_height * self.in_width if self.op == "flatten" else 1)
        if self.op == "slice" and self.out_channels <= made:
            return
        if self.op == "unflatten" and (self.in_height, self.in_width) != (1, 1):
            raise NetworkError(f"layer problem of an unflatten that reads planes: {self}")
        if self.op == "pixel_shuffle":
            made, rest = divmod(self.in_channels, self.stride[0] * self.stride[1])
            if rest or self.stride[0] != self.stride[1]:
                raise NetworkError(f"layer problem whose channels do not divide into squares: {self}")
        if self.op not in LAYERS and self.out_channels != made:
            raise NetworkError(
                f"layer problem with another number of channels than the {made} that it makes: {self}"
            )

    def _check_second(self, then: LayerProblem) -> None:
        window = (self.kernel_size, self.stride, self.padding)
        if self.op != "conv2d" or self.groups != 1 or self.residual or window != ((1, 1), (1, 1), (0, 0)):
            raise NetworkError(
                "layer problem with a depthwise convolution after one that is not 1 x 1, ungrouped, of stride 1, "
                f"without padding and without residual: {self}"
            )
        # One channel makes a depthwise convolution of any that is ungrouped.
        by_channel = then.op == "conv2d" and then.groups == then.in_channels == then.out_channels
        if not by_channel or then.kernel_size == (1, 1) or then.density != 1 or then.then is not None:
            raise NetworkError(
                "layer problem whose second convolution is not a depthwise one, not pruned, with a window above 1 x 1 "
                f"and nothing after it: {self}"
            )
        made = (self.out_channels, self.out_height, self.out_width)
        read = (then.in_channels, then.in_height, then.in_width)
        if made != read:
            raise NetworkError(
                f"layer problem whose second convolution reads {' x '.join(map(str, read))}, but the first one makes "
                f"{' x '.join(map(str, made))}"
            )

    @property
    def out_height(self) -> int:
        """Rows of the output, before ``then``; 1 for ``linear`` and ``global_avg_pool``."""
        return self._out(0, self.in_height)

    @property
    def out_width(self) -> int:
        """Columns of the output, before ``then``; 1 for ``linear`` and ``global_avg_pool``."""
        return self._out(1, self.in_width)

    def _out(self, axis: int, size: int) -> int:
        if self.op in ("linear", "global_avg_pool", "flatten"):
            return 1
        if any(self.size):
            return self.size[axis]
        if self.op in _ENLARGING:
            return size * self.stride[axis]
        kernel, padding = span(self.kernel_size, self.dilation), sides_of(self.padding)
        if self.op == "conv_transpose2d":
            whole = (self.in_height, self.in_width)
            return transposed_size(whole, kernel, self.stride, padding, self.output_padding)[axis]
        before, after = padding[axis::2]
        return (size + before + after - kernel[axis]) // self.stride[axis] + 1

    @property
    def is_depthwise(self) -> bool:
        """True for a convolution that is grouped channel by channel."""
        return self.op == "conv2d" and self.groups == self.out_channels == self.in_channels != 1

    @property
    def macs(self) -> float:
        """Multiply-accumulates on the weights that are kept, those of ``then`` included; 0 without weights."""
        if self.op not in LAYERS:
            return 0.0
        taps = self.in_channels // self.groups * self.kernel_size[0] * self.kernel_size[1]
        transposed = self.op == "conv_transpose2d"
        pixels = self.in_height * self.in_width if transposed else self.out_height * self.out_width
        own = self.density * self.out_channels * taps * pixels
        return own + (self.then.macs if self.then is not None else 0.0)


def _values(document: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in document.items():
        if name in _KINDS and not _KINDS[name](value):
            raise TypeError(f"{name} of a layer is {value!r:.40}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_padding(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) in (2, 4) and all(map(_is_whole, value))


def _is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_is_whole, value))


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("op", "activation"), _is_text),
    **dict.fromkeys(("in_channels", "in_height", "in_width", "out_channels", "groups"), _is_whole),
    **dict.fromkeys(("kernel_size", "stride", "dilation", "output_padding", "size"), _is_pair),
    "padding": _is_padding,
    "density": lambda value: isinstance(value, float) or _is_whole(value),
    "residual": lambda value: isinstance(value, bool),
}
"""What each key of a problem must be, beside the second convolution."""
