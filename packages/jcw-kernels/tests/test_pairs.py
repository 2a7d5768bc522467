"""A 1 x 1 convolution and the strided depthwise one after it, run together: against float64, on any threads."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import kernel_reference as reference
import numpy as np
import pytest
from kernel_samples import EPS, kernels, poisoned, weights_for
from numpy.typing import NDArray

from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_kernels import compile_model


def pair_network(
    shape: tuple[int, int, int],
    width: int,
    kernel: int = 3,
    padding: int | None = None,
    first: str = "relu6",
    second: str = "relu6",
    second_reader: bool = False,
) -> Network:
    """Input and the pair."""
    b = NetworkBuilder("pair", shape)
    one = {"kernel_size": (1, 1), "stride": (1, 1), "padding": (0, 0), "groups": 1}
    b.add("wide", "conv2d", "input", out_channels=width, bias=True, **one)
    if first:
        b.add("wide_act", first)
    wide = b.last
    pad = kernel // 2 if padding is None else padding
    window = {"kernel_size": (kernel, kernel), "stride": (2, 2), "padding": (pad, pad)}
    b.add("depthwise", "conv2d", wide, out_channels=width, groups=width, bias=True, **window)
    if second:
        b.add("depthwise_act", second)
    made = b.last
    if second_reader:
        b.add("other", "conv2d", wide, out_channels=width, groups=width, bias=True, **window)
        b.add("sum", "add", "other", made)
    return b.build()


def bound(network: Network, arrays: Any, image: NDArray[np.float32]) -> NDArray[np.float64]:
    """eps x (terms + 1) x sum |w||x| through both, activations at most six times as steep."""
    absolute = {name: np.abs(array) for name, array in arrays.items()}
    plain = [n for n in network if n.op in ("input", "conv2d")]
    chain = [
        plain[0],
        *(n.__class__(n.name, n.op, (p.name,), n.attributes) for p, n in pairwise(plain)),
    ]
    output = network.output.__class__("output", "output", (plain[-1].name,))
    total = reference.run(Network("bound", (*chain, output)), absolute, np.abs(image[0]))
    terms = arrays["wide.weight"][0].size + arrays["depthwise.weight"][0].size
    return EPS * (terms + 1) * total * 36 + EPS


def check(network: Network, arrays: Any, image: NDArray[np.float32], isa: str, threads: int = 1) -> None:
    program = compile_model(Model(network, arrays), isa=isa, threads=threads)
    assert any(name.endswith("+depthwise") for name in kernels(program))
    got = poisoned(program, image)
    want = reference.run(network, arrays, image[0])
    worst = np.max(np.abs(got - want) - bound(network, arrays, image))
    assert worst <= 0, f"off by {worst:.3g} more than allowed; largest error {np.abs(got - want).max():.3g}"


def run(
    shape: tuple[int, int, int],
    width: int,
    isa: str,
    rng: np.random.Generator,
    density: float = 1.0,
    **options: Any,
) -> None:
    network = pair_network(shape, width, **options)
    image = rng.standard_normal((1, *shape), dtype=np.float32)
    check(network, weights_for(network, rng, density), image, isa)


@pytest.mark.parametrize("width", [2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 48, 49, 64, 65])
@pytest.mark.parametrize("kernel", [3, 5])
def test_tile_edges(kernel: int, width: int, isa: str, rng: np.random.Generator) -> None:
    for height in (3, 7, 8):
        run((8, height, width), 12, isa, rng, kernel=kernel)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 8, 31, 64, 66])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.5, 1.0])
def test_output_channels(density: float, channels: int, isa: str, rng: np.random.Generator) -> None:
    run((32, 9, 10), channels, isa, rng, density=density)


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("kernel", [3, 5])
def test_padding(kernel: int, padding: int, isa: str, rng: np.random.Generator) -> None:
    for size in ((11, 12), (12, 11)):
        run((8, *size), 9, isa, rng, kernel=kernel, padding=padding)


@pytest.mark.parametrize("first", ["", "relu", "hardswish", "silu"])
@pytest.mark.parametrize("second", ["", "relu", "hardswish"])
def test_activations(first: str, second: str, isa: str, rng: np.random.Generator) -> None:
    run((8, 9, 10), 12, isa, rng, first=first, second=second)


@pytest.mark.parametrize("density", [0.2, 1.0])
@pytest.mark.parametrize("kernel", [3, 5])
def test_bands(kernel: int, density: float, isa: str, rng: np.random.Generator) -> None:
    """More rows than a band holds, of which some are computed for two."""
    run((4, 259, 112), 9, isa, rng, density=density, kernel=kernel)


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("shape", [(16, 9, 10), (4, 259, 112)])
def test_threads_give_the_same_bits(
    shape: tuple[int, int, int], threads: int, isa: str, rng: np.random.Generator
) -> None:
    network = pair_network(shape, 22)
    model = Model(network, weights_for(network, rng, 0.5))
    image = rng.standard_normal((1, *shape), dtype=np.float32)
    alone = compile_model(model, isa=isa).run(image)
    assert poisoned(compile_model(model, threads=threads, isa=isa), image).tobytes() == alone[0].tobytes()


def test_no_pair_where_what_is_between_is_read_twice(isa: str, rng: np.random.Generator) -> None:
    network = pair_network((8, 9, 10), 12, second_reader=True)
    arrays = weights_for(network, rng)
    image = rng.standard_normal((1, 8, 9, 10), dtype=np.float32)
    program = compile_model(Model(network, arrays), isa=isa)
    assert not any("+" in name for name in kernels(program))
    want = reference.run(network, arrays, image[0])
    assert np.abs(poisoned(program, image) - want).max() <= 1e-5 * np.abs(want).max()


def test_no_pair_of_many_input_channels(isa: str, rng: np.random.Generator) -> None:
    network = pair_network((64, 9, 10), 12)
    program = compile_model(Model(network, weights_for(network, rng)), isa=isa)
    assert not any("+" in name for name in kernels(program))


def test_pairs_save_the_memory_between_them(rng: np.random.Generator) -> None:
    """The planes between the two, the largest tensor by far, are never in memory as a whole."""
    network = pair_network((4, 256, 256), 64)
    program = compile_model(Model(network, weights_for(network, rng)))
    assert program.memory_bytes < 0.5 * 4 * np.prod(network.shapes["wide"])
