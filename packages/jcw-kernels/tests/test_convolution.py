"""Convolutions at tile edges, on every instruction set, against float64."""

from __future__ import annotations

from typing import Any

import kernel_reference as reference
import numpy as np
import pytest
from kernel_samples import EPS, HALF_EPS, check, conv_bound, conv_network, weights_for

from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network

Computed = dict[str, Any]
ONE_GROUP = 1e-9


def run(
    network: Network, density: float, computed: Computed, rng: np.random.Generator, **options: Any
) -> None:
    arrays = weights_for(network, rng, density)
    image = rng.standard_normal((1, *network.input_shape), dtype=np.float32)
    check(
        network,
        arrays,
        image,
        conv_bound(network, arrays, image, computed["precision"]),
        **computed,
        **options,
    )


@pytest.mark.parametrize("density", [0.0, ONE_GROUP, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 47, 48, 49, 95, 96, 97])
def test_pointwise_run_lengths(
    width: int, density: float, computed: Computed, rng: np.random.Generator
) -> None:
    run(conv_network((7, 1, width), 9, (1, 1)), density, computed, rng)


@pytest.mark.parametrize("density", [0.0, ONE_GROUP, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("out", [1, 3, 4, 5, 7, 8, 9, 17])
def test_output_channels(out: int, density: float, computed: Computed, rng: np.random.Generator) -> None:
    run(conv_network((5, 6, 7), out, (3, 3), padding=(1, 1)), density, computed, rng)


@pytest.mark.parametrize("density", [0.1, 1.0])
@pytest.mark.parametrize("size", [(1, 1), (1, 5), (5, 1), (2, 2), (7, 7), (14, 13), (28, 29)])
@pytest.mark.parametrize("kernel", [1, 3, 5, 7])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_windows(
    kernel: int,
    stride: int,
    size: tuple[int, int],
    density: float,
    computed: Computed,
    rng: np.random.Generator,
) -> None:
    padding = (kernel // 2,) * 2
    run(conv_network((6, *size), 6, (kernel,) * 2, (stride,) * 2, padding), density, computed, rng)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [
        ((1, 1), (1, 1), (1, 1)),
        ((3, 3), (1, 1), (0, 0)),
        ((3, 3), (1, 1), (3, 2)),
        ((3, 1), (1, 1), (1, 0)),
        ((1, 7), (1, 1), (0, 3)),
        ((2, 2), (2, 2), (0, 0)),
        ((3, 5), (2, 1), (1, 2)),
        ((4, 4), (3, 2), (5, 1)),
        ((8, 9), (1, 1), (0, 0)),
        ((1, 1), (2, 3), (0, 0)),
    ],
)
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_odd_windows(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    groups: int,
    computed: Computed,
    rng: np.random.Generator,
) -> None:
    run(conv_network((6, 8, 9), 12, kernel, stride, padding, groups), 0.5, computed, rng)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [
        ((3, 3), (2, 2), (1, 1)),
        ((1, 1), (2, 2), (0, 0)),
        ((6, 5), (2, 2), (0, 3)),
        ((5, 3), (3, 2), (2, 0)),
        ((3, 4), (2, 3), (1, 1)),
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_inputs_split_in_several_bands(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    threads: int,
    computed: Computed,
    rng: np.random.Generator,
) -> None:
    network = conv_network((330, 67, 49), 6, kernel, stride, padding)
    run(network, 0.2, computed, rng, threads=threads)


@pytest.mark.parametrize("threads", [1, 3])
def test_dense_layers_of_small_planes_split_in_several_bands(
    threads: int, computed: Computed, rng: np.random.Generator
) -> None:
    run(conv_network((700, 14, 13), 64, (3, 3), (2, 2), (1, 1)), 1.0, computed, rng, threads=threads)


@pytest.mark.parametrize("activation", ["", "relu", "relu6", "hardswish", "hardsigmoid", "sigmoid", "silu"])
@pytest.mark.parametrize("residual", [False, True])
def test_fused(activation: str, residual: bool, computed: Computed, rng: np.random.Generator) -> None:
    network = conv_network((8, 6, 7), 10, (3, 3), padding=(1, 1), activation=activation, residual=residual)
    run(network, 0.5, computed, rng)


@pytest.mark.parametrize("channels", [1, 200])
@pytest.mark.parametrize("density", [0.1, 1.0])
def test_blocks_of_input_channels(
    channels: int, density: float, computed: Computed, rng: np.random.Generator
) -> None:
    run(conv_network((channels, 12, 13), 13, (3, 3), padding=(1, 1), residual=True), density, computed, rng)


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (6, 1), (7, 8), (20, 33)])
def test_depthwise(
    kernel: int, stride: int, size: tuple[int, int], computed: Computed, rng: np.random.Generator
) -> None:
    network = conv_network(
        (5, *size), 5, (kernel,) * 2, (stride,) * 2, (kernel // 2,) * 2, groups=5, activation="relu6"
    )
    run(network, 1.0, computed, rng)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("out", [3, 4, 5, 7, 8, 14, 15, 16, 17, 28, 32, 49, 63, 64, 65, 96])
def test_depthwise_strips(
    kernel: int, stride: int, out: int, residual: bool, computed: Computed, rng: np.random.Generator
) -> None:
    network = conv_network(
        *((3, 5, stride * out), 3, (kernel,) * 2, (stride,) * 2, (kernel // 2,) * 2),
        groups=3,
        residual=residual,
    )
    run(network, 1.0, computed, rng)


@pytest.mark.parametrize("next_kernel", [3, 5])
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("width", [3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 65])
@pytest.mark.parametrize("height", [1, 7, 8, 9])
@pytest.mark.parametrize("cut", [0, 1])
def test_depthwise_of_stride_two_without_copies(
    cut: int,
    height: int,
    width: int,
    kernel: int,
    next_kernel: int,
    computed: Computed,
    rng: np.random.Generator,
) -> None:
    """The image itself is split, so not the first layer. The next layer's padding lengthens the rows."""
    b = NetworkBuilder("two", (3, 2 * height - cut, 2 * width - cut))
    b.add("first", "relu6")
    b.depthwise("one", kernel, 2)
    b.add("relu6", "relu6")
    b.depthwise("two", next_kernel)
    network = b.build()
    arrays = weights_for(network, rng)
    image = rng.standard_normal((1, *network.input_shape), dtype=np.float32)
    eps = {"float32": 64 * EPS, "float16": 4 * HALF_EPS}[computed["precision"]]
    bound = eps * max(16.0, np.abs(reference.run(network, arrays, image[0])).max())
    check(network, arrays, image, bound, **computed)


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_channel_multipliers_and_groups_of_odd_size(
    groups: int, computed: Computed, rng: np.random.Generator
) -> None:
    run(
        conv_network((groups * 3, 7, 8), groups * 5, (3, 3), padding=(1, 1), groups=groups),
        0.5,
        computed,
        rng,
    )
    run(conv_network((groups, 7, 8), groups * 3, (3, 3), padding=(1, 1), groups=groups), 1.0, computed, rng)


@pytest.mark.parametrize("density", [0.1, 1.0])
def test_cancellation(density: float, computed: Computed, rng: np.random.Generator) -> None:
    """Each weight meets its negative on the same pixels: only rounding is left."""
    network = conv_network((64, 9, 9), 8, (3, 3), padding=(1, 1))
    arrays = weights_for(network, rng, density)
    arrays["conv.weight"][:, 32:] = -arrays["conv.weight"][:, :32]
    image = rng.standard_normal((1, 64, 9, 9), dtype=np.float32)
    image[:, 32:] = image[:, :32]
    check(network, arrays, image, conv_bound(network, arrays, image, computed["precision"]), **computed)
