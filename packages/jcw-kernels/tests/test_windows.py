"""Windows of any geometry: taps that only meet padding, strides past the input, rows of one pixel."""

from __future__ import annotations

import kernel_reference as reference
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from kernel_samples import EPS, check, weights_for

from jcw_core.network.builder import NetworkBuilder
from jcw_kernels import available_isas

SIZES = st.integers(1, 3) | st.integers(1, 12)


@given(
    op=st.sampled_from(["conv2d", "depthwise", "max_pool", "avg_pool"]),
    shape=st.tuples(st.integers(1, 5), SIZES, SIZES),
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 11)),
    stride=st.tuples(st.integers(1, 5), st.integers(1, 7)),
    padding=st.tuples(st.integers(0, 6), st.integers(0, 12)),
    behind=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@example("depthwise", (8, 1, 1), (3, 1), (2, 2), (1, 1), True, 0)
@example("depthwise", (8, 1, 1), (3, 1), (2, 2), (1, 1), False, 0)
@example("depthwise", (5, 12, 9), (7, 7), (1, 1), (3, 3), True, 0)
@example("depthwise", (5, 7, 12), (7, 7), (1, 1), (6, 0), True, 0)
@example("conv2d", (3, 9, 1), (3, 1), (2, 2), (1, 1), False, 0)
@example("conv2d", (3, 3, 1), (3, 11), (5, 7), (20, 5), False, 0)
@example("max_pool", (1, 1, 1), (11, 5), (5, 7), (5, 2), False, 0)
def test_windows(
    op: str,
    shape: tuple[int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    behind: bool,
    seed: int,
) -> None:
    if op.endswith("pool"):
        assume(2 * padding[0] <= kernel[0] and 2 * padding[1] <= kernel[1])
    assume(all(s + 2 * p >= k for s, k, p in zip(shape[1:], kernel, padding, strict=True)))
    b = NetworkBuilder("window", shape)
    if behind:  # so that the window does not read the caller's image
        b.add("relu", "relu")
    window = {"kernel_size": kernel, "stride": stride, "padding": padding}
    if op == "conv2d":
        b.add("window", op, out_channels=6, groups=1, bias=True, **window)
    elif op == "depthwise":
        b.add("window", "conv2d", out_channels=shape[0], groups=shape[0], bias=True, **window)
    else:
        b.add("window", op, **window)
    network, rng = b.build(), np.random.default_rng(seed)
    arrays = weights_for(network, rng)
    image = rng.standard_normal((1, *shape), dtype=np.float32)
    largest = max(16.0, np.abs(reference.run(network, arrays, image[0])).max())
    for isa in available_isas():
        check(network, arrays, image, 256 * EPS * largest, isa=isa)


@pytest.mark.parametrize("threads", [2, 3])
def test_a_window_in_the_padding_is_the_bias(threads: int, isa: str, rng: np.random.Generator) -> None:
    b = NetworkBuilder("padding", (7, 1, 1))
    window = {"kernel_size": (1, 1), "stride": (2, 2), "padding": (1, 1)}
    b.add("window", "conv2d", out_channels=7, groups=7, bias=True, **window)
    network = b.build()
    arrays = weights_for(network, rng)
    check(network, arrays, np.ones((1, 7, 1, 1), np.float32), 0.0, isa=isa, threads=threads)
