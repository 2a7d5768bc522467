"""Random layers of whole numbers: bit for bit what integers in numpy give, on every instruction set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from conftest import ISAS
from hypothesis import given
from hypothesis import strategies as st
from kernel_samples import conv_network
from test_quantized import check

from jcw_core.network.graph import Network

SIZES = st.sampled_from([1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 40, 65])
KERNELS = st.tuples(st.integers(1, 7), st.integers(1, 7))


@dataclass(frozen=True)
class Drawn:
    """A layer, and what it is run with."""

    network: Network
    density: float
    zero: int
    threads: int
    seed: int


@st.composite
def layers(draw: st.DrawFn) -> Drawn:
    """A convolution, a depthwise one, or one of a single output pixel, which is a linear layer."""
    kind = draw(st.sampled_from(["conv", "depthwise", "linear"]))
    channels, height, width = draw(SIZES), draw(SIZES), draw(SIZES)
    kernel = draw(KERNELS)
    padding = tuple(draw(st.integers(0, size // 2)) for size in kernel)
    stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    if kind == "linear":
        height, width, padding = kernel[0], kernel[1], (0, 0)
    height, width = (max(size, k) for size, k in zip((height, width), kernel, strict=True))
    out = channels if kind == "depthwise" else draw(SIZES)
    network = conv_network(
        (channels, height, width),
        out,
        kernel,
        stride,
        padding,
        groups=channels if kind == "depthwise" else 1,
        activation=draw(st.sampled_from(["", "relu", "relu6"])),
        residual=draw(st.booleans()),
    )
    if kind == "depthwise" and np.prod(network.shapes["conv"][1:]) == 1:  # that is neither
        return draw(layers())
    density = 1.0 if kind == "depthwise" else draw(st.sampled_from([0.0, 0.1, 0.4, 0.8, 1.0]))
    return Drawn(
        network, density, draw(st.integers(0, 255)), draw(st.integers(1, 3)), draw(st.integers(0, 2**32 - 1))
    )


@given(drawn=layers())
def test_layers_compute_what_integers_do(drawn: Drawn) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for dot in ("always", "never"):
            patch.setenv("JCW_DOT", dot)
            for isa in ISAS:
                rng = np.random.default_rng(drawn.seed)
                check(drawn.network, drawn.density, rng, drawn.zero, isa=isa, threads=drawn.threads)
