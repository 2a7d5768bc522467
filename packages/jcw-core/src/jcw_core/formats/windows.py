"""Padding as the importers' sources write it, as the network's own."""

from __future__ import annotations

from collections.abc import Sequence


def with_last_windows(
    padding: Sequence[int], size: Sequence[int], kernel: Sequence[int], stride: Sequence[int]
) -> tuple[int, ...]:
    """The padding with which a pooling has as many windows as one whose size is rounded up.

    Args:
        padding: (top, left, bottom, right).
        size, kernel, stride: (height, width).

    Returns:
        the same, longer at the bottom and on the right where a last window begins before the padding there, as torch and ONNX
        have it for ``ceil_mode``.
    """
    top, left, bottom, right = padding
    after = []
    for n, k, s, before, end in zip(size, kernel, stride, (top, left), (bottom, right), strict=True):
        missing = -(n + before + end - k) % s
        begins = n + before + end - k + missing
        after.append(end + missing if missing and begins < n + before else end)
    return top, left, after[0], after[1]
