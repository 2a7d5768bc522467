"""Layers that are legal: a grid of small ones and random large ones, every kind of window."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from jcw_core.errors import NetworkError
from jcw_core.network.problem import LayerProblem

SIZES = [(1, 1), (2, 3), (5, 5), (7, 7), (1, 9), (14, 33)]
KERNELS = [(1, 1), (2, 2), (3, 3), (5, 5), (7, 7), (1, 3), (4, 9)]
STRIDES = [(1, 1), (2, 2), (2, 1), (3, 3)]
PADDINGS = ["none", "half", "whole"]
OPS = ["conv2d", "grouped", "depthwise", "max_pool", "avg_pool"]


def small() -> Iterator[LayerProblem]:
    """All small layers that ``LayerProblem`` takes."""
    for op, size, kernel, stride, padding in product(OPS, SIZES, KERNELS, STRIDES, PADDINGS):
        pad = {"none": (0, 0), "half": (kernel[0] // 2, kernel[1] // 2), "whole": kernel}[padding]
        yield from _legal(op, 6, size, kernel, stride, pad)


def large(rng: np.random.Generator, count: int) -> Iterator[LayerProblem]:
    """Random layers of few channels with long rows, wide windows and long strides."""
    while count:
        size, kernel = _long(rng, 800), _long(rng, 300)
        stride = (int(rng.integers(1, 5)), int(rng.integers(1, 5)))
        share = rng.choice([0.0, 0.5, 1.0])
        padding = (int(share * (kernel[0] - 1)), int(share * (kernel[1] - 1)))
        op = OPS[rng.integers(len(OPS))]
        for problem in _legal(op, 2 * int(rng.integers(1, 3)), size, kernel, stride, padding):
            count -= 1
            yield problem


def strided(rng: np.random.Generator, count: int) -> Iterator[LayerProblem]:
    """Random convolutions with a stride whose whole output is one band."""
    while count:
        kernel, stride = [((7, 7), (2, 2)), ((3, 3), (2, 1)), ((5, 3), (2, 1)), ((7, 7), (3, 1))][
            rng.integers(4)
        ]
        size = (int(rng.integers(7, 33)), stride[1] * int(rng.integers(113, 150)))
        for problem in _legal("conv2d", 3, size, kernel, stride, (kernel[0] // 2, kernel[1] // 2)):
            count -= 1
            yield problem


def _long(rng: np.random.Generator, longest: int) -> tuple[int, int]:
    height, width = (int(longest ** rng.random()) for _ in range(2))
    return height, width


def _legal(
    op: str,
    channels: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
) -> Iterator[LayerProblem]:
    groups = {"grouped": 2, "depthwise": channels}.get(op, 1)
    name = op if op.endswith("pool") else "conv2d"
    try:
        yield LayerProblem(name, channels, *size, channels, kernel, stride, padding, groups)
    except NetworkError:
        return
