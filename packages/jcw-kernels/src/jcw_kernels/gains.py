"""Which layers are faster with int8 by more than rounding their inputs costs, by what was measured of processors."""

from __future__ import annotations

import math

from jcw_core.network.operations import LAYERS
from jcw_core.network.problem import LayerProblem
from jcw_core.protocols import Products
from jcw_kernels._engine import numbers_at_once
from jcw_kernels.quantization import depthwise_gains, gains, linear_gains

_PRODUCTS: dict[int, Products] = {4: "bytes", 2: "pairs"}

# By pairs of 16 bits, measured with AVX2 on resnet18, mobilenet_v1 and mobilenet_v2 at densities 1, .2 and .1: 1 x 1 and depthwise
# convolutions take 1.0 to 1.4 times as long as with floats, larger windows 0.8 to 1.0, but for those below.
_LEAST_KEPT = 100
"""Products of an output, below which rounding inputs costs more than it saves."""
_LEAST_STRIDED = 0.15
"""Share of weights that a strided convolution keeps, whose inputs are always rounded by a step of its own."""
_WINOGRAD = 0.4
"""Share of weights from which on Winograd's form, which only floats have, is the faster one."""
_HAVE_WINOGRAD = (((3, 3), (1, 1)), ((7, 7), (2, 2)))
"""Windows and strides that are computed in this form."""
_LEAST_LINEAR = 0.5
"""Share of weights that a linear layer keeps; with int8 all are multiplied."""


def products_here(isa: str = "") -> Products:
    """What this machine sums up at once of whole numbers, where a program is asked to run with ``isa``."""
    return _PRODUCTS.get(numbers_at_once(isa), "none")


def gains_from_int8(problem: LayerProblem, products: Products) -> bool:
    """Whether a layer is taken to be faster with int8.

    Args:
        problem: the layer; of two that run together one.
        products: what the processor sums up at once. Without any no layer is: it multiplies as many numbers as floats.
    """
    if problem.op not in LAYERS - {"conv_transpose2d"} or products == "none":
        return False
    inputs = problem.in_channels * math.prod(problem.kernel_size)
    pairs = products == "pairs"
    if problem.out_height * problem.out_width == 1:
        kept = not pairs or problem.density >= _LEAST_LINEAR
        return problem.groups == 1 and kept and linear_gains(inputs, problem.out_channels, problem.density)
    if problem.groups == problem.in_channels == problem.out_channels:
        shape = problem.kernel_size, problem.stride, problem.activation, problem.out_width
        return not pairs and depthwise_gains(*shape)
    if pairs and not _gains_by_pairs(problem, problem.density * inputs):
        return False
    return problem.groups == 1 and gains(problem.kernel_size, problem.density * problem.in_channels)


def _gains_by_pairs(problem: LayerProblem, kept: float) -> bool:
    if problem.kernel_size == (1, 1) or kept < _LEAST_KEPT:
        return False
    if problem.density >= _WINOGRAD and (problem.kernel_size, problem.stride) in _HAVE_WINOGRAD:
        return False
    return problem.stride == (1, 1) or problem.density >= _LEAST_STRIDED
