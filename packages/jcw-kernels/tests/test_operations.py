"""Everything but convolution, alone and in combination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernel_reference as reference
import numpy as np
import pytest
from kernel_samples import EPS, HALF_EPS, check, weights_for

from jcw_core.errors import NetworkError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.protocols import Precision
from jcw_kernels import compile_model

Computed = dict[str, Any]


def judge(network: Network, computed: Computed, rng: np.random.Generator, scale: float = 64.0) -> None:
    arrays = weights_for(network, rng)
    image = rng.standard_normal((1, *network.input_shape), dtype=np.float32)
    largest = max(16.0, np.abs(reference.run(network, arrays, image[0])).max())
    eps = {"float32": EPS, "float16": HALF_EPS / 16}[computed["precision"]]
    check(network, arrays, image, scale * eps * largest, **computed)


@pytest.mark.parametrize("op", ["sigmoid", "silu"])
def test_far_values_are_normal_numbers(op: str, isa: str) -> None:
    """Those below the normal ones take a processor ten times as long, here and in what reads them."""
    b = NetworkBuilder("far", (1, 4, 4))
    b.add("act", op)
    image = np.float32([-1e30, -1e3, -88.7, -88, -87.4, -87, -80, -1, 1, 80, 87, 88, 89, 1e3, 1e30, 100])
    got = compile_model(Model(b.build(), {}), isa=isa).run(image.reshape(1, 1, 4, 4))[0]
    assert (np.abs(got) >= np.finfo(np.float32).tiny).all()
    near = np.abs(image) < 80
    with np.errstate(over="ignore"):
        wanted = 1 / (1 + np.exp(-image.astype(np.float64))) * (image if op == "silu" else 1)
    np.testing.assert_allclose(got[near], wanted[near], rtol=1e-6)
    assert (np.abs(got[image < -80]) <= 1e-34 * np.maximum(-image[image < -80], 1)).all()
    np.testing.assert_array_equal(got[image >= 80], image[image >= 80] if op == "silu" else 1)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "more", "dilation", "groups"),
    [
        ((4, 4), (2, 2), (1, 1), (0, 0), (1, 1), 1),
        ((3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 1),
        ((5, 2), (3, 1), (2, 0, 1, 1), (2, 0), (1, 1), 1),
        ((3, 3), (1, 1), (1, 1), (0, 0), (1, 1), 4),
        ((4, 4), (2, 2), (1, 1), (0, 0), (1, 1), 8),
        ((3, 2), (2, 3), (3, 1), (0, 1), (2, 1), 2),
        ((2, 2), (2, 2), (0, 0), (0, 0), (1, 1), 1),
        ((6, 6), (2, 2), (5, 5), (0, 0), (1, 1), 1),
    ],
)
@pytest.mark.parametrize("size", [(1, 4), (5, 9), (14, 12)])
def test_transposed_convolutions_are_ordinary_ones_of_their_phases(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, ...],
    more: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
    size: tuple[int, int],
    computed: Computed,
    rng: np.random.Generator,
) -> None:
    window = {"kernel_size": kernel, "stride": stride, "padding": padding, "output_padding": more}
    b = NetworkBuilder("up", (8, *size))
    try:
        b.add(
            "up", "conv_transpose2d", out_channels=24, groups=groups, bias=True, dilation=dilation, **window
        )
    except NetworkError:
        pytest.skip("the padding leaves nothing")
    network = b.build()
    judge(network, computed, rng)
    arrays = weights_for(network, rng, 0.5)
    step = next(
        s
        for s in compile_model(Model(network, arrays)).profile(rounds=1)
        if s.kernel not in ("copy", "linear")
    )
    assert step.kernel != "portable"
    if groups == 1:
        assert step.macs == pytest.approx(0.5 * network.node_macs(network["up"]), rel=0.1)
        assert step.density == pytest.approx(0.5, rel=0.1)


def test_a_transposed_convolution_of_few_taps_and_a_long_stride_stays_one(
    computed: Computed, rng: np.random.Generator
) -> None:
    b = NetworkBuilder("up", (8, 5, 6))
    window = {"kernel_size": (1, 2), "stride": (7, 5), "padding": (0, 0)}
    b.add("up", "conv_transpose2d", out_channels=12, groups=1, bias=True, **window)
    network = b.build()
    judge(network, computed, rng)
    steps = compile_model(Model(network, weights_for(network, rng))).profile(rounds=1)
    assert "portable" in {step.kernel for step in steps}


def with_slopes(shape: tuple[int, int, int], slope: str) -> Network:
    """Slopes after all that they fuse into, and after what they do not."""
    b = NetworkBuilder("slopes", shape)

    def then(name: str) -> str:
        return b.add(name, slope, **({"slope": -0.3} if slope == "leaky_relu" else {}))

    then("first")
    b.conv("conv", 9, 3)
    b.batch_norm("bn")
    first = then("conv_slope")
    b.conv("next", 9, 1)
    b.add("residual", "add", "next", first)
    wide = then("residual_slope")
    gate = b.add("gate", "sigmoid")
    b.depthwise("dw", 3, source=wide)
    then("dw_slope")
    b.add("product", "mul", "dw_slope", gate)
    then("product_slope")
    b.batch_norm("norm")
    then("norm_slope")
    b.pool("pool", "max_pool", 3, 2, 1)
    then("pool_slope")
    b.add("global", "global_avg_pool")
    then("global_slope")
    b.add("flat", "flatten")
    b.linear("fc1", 7)
    flat = then("fc1_slope")
    b.linear("fc2", 7)
    b.add("flat_sum", "add", "fc2", flat)
    b.add("flat_relu", "relu")
    b.add("flat_twice", "add", "flat_relu", flat)
    then("flat_slope")
    return b.build()


@pytest.mark.parametrize("slope", ["leaky_relu", "prelu"])
@pytest.mark.parametrize("shape", [(3, 1, 1), (3, 2, 17), (4, 7, 7), (5, 12, 33), (16, 9, 40)])
def test_slopes(
    shape: tuple[int, int, int], slope: str, computed: Computed, rng: np.random.Generator
) -> None:
    judge(with_slopes(shape, slope), computed, rng, 256.0)


def test_slopes_are_part_of_what_they_fuse_into(rng: np.random.Generator) -> None:
    network = with_slopes((4, 7, 7), "prelu")
    steps = compile_model(Model(network, weights_for(network, rng))).profile(rounds=1)
    own = {step.layer for step in steps} & {node.name for node in network if node.op == "prelu"}
    assert own == {"first", "pool_slope", "global_slope", "flat_slope"}
    assert {step.kernel for step in steps if step.layer in own} == {"copy", "elementwise", "portable"}


SIZES = [(1, 1, 1), (3, 1, 1), (1, 5, 1), (3, 1, 17), (4, 7, 7), (5, 12, 33)]


@pytest.mark.parametrize("shape", [*SIZES, (2, 5, 131)])
@pytest.mark.parametrize("op", ["max_pool", "avg_pool"])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(1, 1, 0), (2, 2, 1), (3, 2, 1), (3, 1, 1), (5, 3, 2)]
)
@pytest.mark.parametrize("relu", [False, True])
def test_pooling(
    shape: tuple[int, int, int],
    op: str,
    kernel: int,
    stride: int,
    padding: int,
    relu: bool,
    computed: Computed,
    rng: np.random.Generator,
) -> None:
    b = NetworkBuilder("pool", shape)
    if relu:
        b.add("relu", "relu")
    b.pool("pool", op, kernel, stride, padding)
    judge(b.build(), computed, rng)


@pytest.mark.parametrize("shape", [*SIZES, (2, 5, 131)])
def test_pooling_to_one_pixel(
    shape: tuple[int, int, int], computed: Computed, rng: np.random.Generator
) -> None:
    b = NetworkBuilder("pool", shape)
    b.add("relu6", "relu6")
    b.add("pool", "avg_pool", kernel_size=shape[1:], stride=(1, 1), padding=(0, 0))
    b.add("flat", "flatten")
    b.linear("fc", 3)
    judge(b.build(), computed, rng)


@pytest.mark.parametrize("op", ["max_pool", "avg_pool"])
@pytest.mark.parametrize("size", [3, 5])
def test_pooling_with_a_stride_to_one_pixel(
    size: int, op: str, computed: Computed, rng: np.random.Generator
) -> None:
    b = NetworkBuilder("pool", (5, size, size))
    b.add("relu", "relu")
    b.pool("pool", op, size, 2, 0)
    judge(b.build(), computed, rng)


@pytest.mark.parametrize("shape", SIZES)
def test_global_mean(shape: tuple[int, int, int], computed: Computed, rng: np.random.Generator) -> None:
    b = NetworkBuilder("mean", shape)
    b.add("mean", "global_avg_pool")
    judge(b.build(), computed, rng)


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("activation", ["relu", "relu6", "hardswish", "hardsigmoid", "sigmoid", "silu"])
def test_activations_alone(
    shape: tuple[int, int, int], activation: str, computed: Computed, rng: np.random.Generator
) -> None:
    b = NetworkBuilder("act", shape)
    b.add("act", activation)
    b.add("mean", "max_pool", kernel_size=(1, 1), stride=(1, 1), padding=(0, 0))
    b.conv("conv", 3, 1, bias=True)
    judge(b.build(), computed, rng)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(2, 2, 0), (3, 1, 1), (3, 2, 1), (5, 2, 2), (5, 1, 0), (4, 3, 2)]
)
@pytest.mark.parametrize("size", [(9, 8), (16, 33), (5, 5)])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_max_pooling_keeps_nan(
    precision: Precision,
    size: tuple[int, int],
    kernel: int,
    stride: int,
    padding: int,
    relu: bool,
    isa: str,
    rng: np.random.Generator,
) -> None:
    """Whatever the other values under the window, and the bits of the NaN."""
    b = NetworkBuilder("pool", (3, *size))
    if relu:
        b.add("relu", "relu")
    b.pool("pool", "max_pool", kernel, stride, padding)
    network = b.build()
    image = rng.standard_normal((1, 3, *size), dtype=np.float32)
    image[rng.random(image.shape) < 0.05] = np.inf
    image[rng.random(image.shape) < 0.05] = -np.inf
    bits = rng.choice(
        np.array([0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FD5AAAA], np.uint32), image.shape
    )
    image = np.where(rng.random(image.shape) < 0.02, bits.view(np.float32), image)
    image[0, 0, 0, 0] = np.nan
    got = compile_model(Model(network, {}), isa=isa, precision=precision).run(image)[0]
    want = reference.run(network, {}, image[0])
    assert np.isnan(want).any()
    np.testing.assert_array_equal(got, want.astype(precision))


def squeeze_excite(b: NetworkBuilder) -> None:
    b.conv("expand", 8, 3, bias=True)
    b.add("mean", "global_avg_pool")
    b.conv("reduce", 2, 1, bias=True)
    b.add("relu", "relu")
    b.conv("widen", 8, 1, bias=True)
    b.add("gate", "hardsigmoid")
    b.add("scaled", "mul", "expand", "gate")
    b.add("act", "hardswish")


def branches(b: NetworkBuilder) -> None:
    b.conv("a", 3, 3, source="input")
    b.conv("b", 5, 1, source="input")
    b.add("both", "concat", "a", "b", "input")
    b.conv("c", 4, 3, 2)
    b.conv("d", 4, 1, 2, source="both")
    b.add("sum", "add", "c", "d")
    b.add("product", "mul", "sum", "c")
    b.add("twice", "add", "product", "product")


def with_input_as_residual(b: NetworkBuilder) -> None:
    b.conv("conv", b.channels("input"), 3, source="input")
    b.add("sum", "add", "conv", "input")
    b.add("out", "mul", "sum", "input")


def norms(b: NetworkBuilder) -> None:
    b.batch_norm("bn0", source="input")
    b.conv("conv", 6, 3)
    b.batch_norm("bn1")
    b.add("relu", "relu")
    b.depthwise("dw", 5)
    b.batch_norm("bn2")


def separable(b: NetworkBuilder) -> None:
    b.depthwise("dw0", 3, source="input")
    b.add("relu0", "relu")
    b.conv("point1", 9, 1)
    b.add("relu1", "relu")
    b.depthwise("dw1", 3, 2)
    b.add("relu2", "relu6")
    b.conv("point2", 17, 1, bias=True)
    b.depthwise("dw2", 5)


def inverted_residual(b: NetworkBuilder) -> None:
    start = b.conv("start", 5, 3, source="input")
    b.conv("expand", 23, 1)
    b.batch_norm("bn1")
    b.add("relu1", "relu6")
    b.depthwise("dw", 3)
    b.batch_norm("bn2")
    b.add("relu2", "hardswish")
    b.add("sum", "add", b.conv("project", 5, 1), start)
    b.conv("again", 5, 1)
    b.depthwise("dw2", 3)
    b.add("sum2", "add", "dw2", start)
    b.add("relu3", "relu")


def valid_windows(b: NetworkBuilder) -> None:
    b.conv("a", 6, 3, padding=0)
    b.conv("b", 6, 5, padding=4)
    b.conv("c", 6, 1, padding=1)
    b.pool("p", "max_pool", 2, 1)


def flat(b: NetworkBuilder) -> None:
    b.conv("conv", 6, 3)
    b.add("flat", "flatten")
    b.linear("one", 9)
    b.add("relu", "relu")
    b.linear("two", 9, bias=False)
    b.add("sum", "add", "relu", "two")
    b.add("silu", "silu")


@pytest.mark.parametrize(
    "build",
    [
        squeeze_excite,
        branches,
        with_input_as_residual,
        norms,
        separable,
        inverted_residual,
        valid_windows,
        flat,
    ],
)
@pytest.mark.parametrize("size", [(3, 1, 1), (3, 8, 9), (2, 17, 4), (1, 30, 31)])
def test_combinations(
    build: Callable[[NetworkBuilder], None],
    size: tuple[int, int, int],
    computed: Computed,
    rng: np.random.Generator,
) -> None:
    if build is valid_windows and size[1] < 3:
        size = (3, 3, 3)
    b = NetworkBuilder(build.__name__, size)
    build(b)
    judge(b.build(), computed, rng, scale=2048)


def test_copies_only(computed: Computed, rng: np.random.Generator) -> None:
    b = NetworkBuilder("copy", (2, 3, 4))
    network = b.build()
    judge(network, computed, rng)
