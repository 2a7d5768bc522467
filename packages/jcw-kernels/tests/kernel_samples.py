"""Random networks of one layer, their weights, and the error that a precision may make."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import kernel_reference as reference
import numpy as np
from numpy.typing import NDArray

from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.network.operations import ACTIVATIONS
from jcw_core.network.problem import LayerProblem
from jcw_core.network.weight_groups import density_mask
from jcw_kernels import Program, compile_model

EPS = float(np.finfo(np.float32).eps)
HALF_EPS = float(np.finfo(np.float16).eps)
HALF_TERMS = 64
"""Products that half precision adds up before float32 does."""


def weights_for(
    network: Network, rng: np.random.Generator, density: float = 1.0
) -> dict[str, NDArray[np.float32]]:
    """Signed weights; those of ungrouped layers keep the ``density`` share of their groups, at least one above 0."""
    arrays = {}
    for name, shape in {**network.parameter_shapes, **network.buffer_shapes}.items():
        array = rng.standard_normal(shape).astype(np.float32)
        if name.endswith("running_var"):
            array = np.abs(array) + 0.5
        if name.endswith(".weight") and len(shape) in (2, 4):
            array *= density_mask(array, density)
        arrays[name] = array.astype(np.float32)
    return arrays


def conv_network(
    shape: tuple[int, int, int],
    out: int,
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    groups: int = 1,
    activation: str = "",
    residual: bool = False,
) -> Network:
    """Input, an identity copy, a convolution, and what is fused into it."""
    b = NetworkBuilder("one", shape)
    attributes: dict[str, Any] = {"kernel_size": kernel, "stride": stride, "padding": padding}
    b.add("conv", "conv2d", "input", out_channels=out, groups=groups, bias=True, **attributes)
    if residual:
        b.add("other", "conv2d", "input", out_channels=out, groups=groups, bias=True, **attributes)
        b.add("sum", "add", "conv", "other")
    if activation:
        b.add("act", activation)
    return b.build()


def poisoned(program: Program, image: NDArray[np.float32]) -> NDArray[np.float32]:
    """The output of one image (1, c, h, w) when all memory held NaN before."""
    program.run(image)
    program._engine.poison()
    return program.run(image)[0]


def kernels(program: Program) -> list[str]:
    """What each step of a program is computed by, in order."""
    return [step[1] for step in program._engine.steps()]


def check(network: Network, arrays: Any, image: NDArray[np.float32], bound: Any, **options: Any) -> None:
    """The engine agrees with float64 within ``bound`` (scalar or one value per output)."""
    program = compile_model(Model(network, arrays), **options)
    got = poisoned(program, image)
    want = reference.run(network, arrays, image[0])
    assert np.isfinite(got).all()
    worst = np.max(np.abs(got - want) - bound)
    assert worst <= 0, f"off by {worst:.3g} more than allowed; largest error {np.abs(got - want).max():.3g}"


def conv_bound(
    network: Network, arrays: Any, image: NDArray[np.float32], precision: str = "float32"
) -> NDArray[np.float64]:
    """eps x (terms + 1) x sum |w||x| of every output of ``conv_network``.

    In half precision the terms are those of a part of a sum; parts, blocks of inputs, pixels, weights and the residual are
    rounded as well.
    """
    absolute = {name: np.abs(array) for name, array in arrays.items()}
    plain = [n for n in network if n.op in ("input", "conv2d", "add")]
    output = network.output.__class__("output", "output", (plain[-1].name,))
    total = reference.run(Network("bound", (*plain, output)), absolute, np.abs(image[0]))
    terms = arrays["conv.weight"][0].size * (2 if "sum" in network else 1)
    eps, roundings = EPS, terms + 1
    if precision == "float16":
        eps, roundings = HALF_EPS, min(terms, HALF_TERMS) + 8
    return eps * roundings * total * (6 if "act" in network else 1) + eps


DEPTHWISE = LayerProblem("conv2d", 12, 10, 9, 12, (3, 3), (2, 2), (1, 1), groups=12, activation="relu6")
PAIRS = [
    LayerProblem("conv2d", 8, 10, 9, 12, density=0.5, activation="relu6", then=DEPTHWISE),
    LayerProblem("conv2d", 8, 10, 9, 12, then=replace(DEPTHWISE, residual=True)),
    LayerProblem("conv2d", 8, 10, 9, 12, density=0.0, then=replace(DEPTHWISE, stride=(1, 1), activation="")),
    LayerProblem("conv2d", 8, 10, 9, 12, activation="prelu", then=replace(DEPTHWISE, activation="prelu")),
    LayerProblem("conv2d", 8, 10, 9, 1, then=LayerProblem("conv2d", 1, 10, 9, 1, (5, 5), padding=(2, 2))),
]
"""A pointwise convolution and the depthwise one after it; of one channel, that is a convolution like any other."""

PROBLEMS = [
    LayerProblem(
        "conv2d", 8, 10, 9, 12, (3, 3), (2, 2), (1, 1), density=0.2, activation="relu", residual=True
    ),
    LayerProblem("conv2d", 64, 10, 9, 64, (3, 3), (1, 1), (1, 1), density=0.1),
    LayerProblem("conv2d", 8, 10, 9, 12, (3, 3), (1, 1), (1, 1), activation="prelu", residual=True),
    LayerProblem("linear", 30, 1, 1, 7, density=0.5, activation="prelu"),
    LayerProblem("conv2d", 8, 10, 9, 12, (3, 3), (1, 1), (1, 1), density=0.0),
    LayerProblem("conv2d", 8, 10, 9, 8, (5, 5), (1, 1), (2, 2), groups=8, activation="hardswish"),
    LayerProblem("conv2d", 8, 10, 9, 8, (7, 7), (1, 1), (3, 3), groups=8, residual=True),
    LayerProblem("conv2d", 8, 10, 9, 8, (3, 3), (1, 1), (1, 1), groups=2),
    LayerProblem("conv2d", 8, 1, 1, 8, activation="sigmoid"),
    LayerProblem("conv2d", 32, 8, 8, 1, (3, 3), (1, 1), (1, 1), density=0.1),
    LayerProblem("conv2d", 16, 10, 9, 8, (3, 3), (1, 1), (1, 1), groups=8, density=0.5),
    LayerProblem("conv2d", 8, 7, 7, 8, (7, 7), groups=8),
    LayerProblem("linear", 30, 1, 1, 7, density=0.5, residual=True),
    LayerProblem("linear", 512, 1, 1, 1, density=0.1),
    LayerProblem("linear", 256, 1, 1, 50, density=0.25, activation="relu", residual=True),
    LayerProblem("max_pool", 8, 10, 9, 8, (3, 3), (2, 2), (1, 1)),
    LayerProblem("avg_pool", 8, 7, 7, 8, (7, 7)),
    LayerProblem("global_avg_pool", 8, 10, 9, 8),
    LayerProblem("flatten", 8, 10, 9, 720),
    LayerProblem("flatten", 20, 60, 60, 72_000),
    LayerProblem("add", 8, 10, 9, 8, activation="relu"),
    LayerProblem("mul", 8, 10, 9, 8),
    LayerProblem("scale", 8, 10, 9, 8),
    LayerProblem("concat", 9, 10, 9, 9),
    LayerProblem("batch_norm", 8, 10, 9, 8, activation="relu6"),
    *PAIRS,
    *(
        LayerProblem(op, 8, 10, 9, 8)
        for op in ("clip", "leaky_relu", "elu", "prelu", "softmax", "channel_shuffle")
    ),
    *(LayerProblem(op, 8, 5, 6, 8, stride=(2, 3)) for op in ("resize_nearest", "resize_bilinear")),
    *(LayerProblem(op, 8, 5, 6, 8, size=(7, 4)) for op in ("resize_nearest", "resize_bilinear")),
    LayerProblem("conv2d", 8, 10, 9, 12, (3, 3), padding=(2, 2), density=0.5, dilation=(2, 2)),
    LayerProblem("conv_transpose2d", 8, 5, 4, 12, (4, 3), (2, 2), (1, 0), density=0.5, output_padding=(1, 0)),
    LayerProblem("slice", 8, 10, 9, 5),
    LayerProblem("pixel_shuffle", 8, 5, 6, 2, stride=(2, 2)),
    LayerProblem("unflatten", 8, 1, 1, 8),
    *(LayerProblem(name, 8, 10, 9, 8) for name in sorted(ACTIVATIONS)),
]
"""Every kind of layer that a device may have to time."""


def rounding(problem: LayerProblem) -> float:
    """By how many multiply-accumulates whole weight groups may miss a problem's density."""
    return 4 * problem.out_height * problem.out_width if 0 < problem.density < 1 else 0
