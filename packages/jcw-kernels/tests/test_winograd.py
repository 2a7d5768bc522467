"""3 x 3 convolutions in Winograd's form: against float64, the same bits anywhere, and chosen where it pays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import kernel_reference as reference
import numpy as np
import pytest
from kernel_samples import EPS, check, conv_network, kernels, poisoned, weights_for
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from jcw_core.errors import JcwError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.network.problem import LayerProblem
from jcw_kernels import Program, available_isas, compile_model
from jcw_kernels.layer_program import layer_file

G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
B_T = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 0, 1]])
"""Without signs, as A_T."""
A_T = np.array([[1, 1, 1, 0], [0, 1, 1, 1]])
ONE_GROUP = 1e-9


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JCW_WINOGRAD", "always")


def tile_sum(
    weight: NDArray[Any], image: NDArray[np.float32], padding: tuple[int, int]
) -> NDArray[np.float64]:
    """sum |w||x| of (o, h, w) outputs where w and x are the 16 points that Winograd's form multiplies.

    They come from the whole 4 x 4 patch of a tile: an output whose own window is zero may get rounding noise
    from its neighbour's.
    """
    height, width = (n + 2 * p - 2 for n, p in zip(image.shape[1:], padding, strict=True))
    odd = height % 2, width % 2
    padded = np.pad(np.abs(image), ((0, 0), *((p, p + o) for p, o in zip(padding, odd, strict=True))))
    patches = sliding_window_view(padded, (4, 4), axis=(1, 2))[:, ::2, ::2]
    points = np.einsum("ia,cyxab,jb->cyxij", B_T, patches, B_T)
    products = np.einsum("ocij,cyxij->oyxij", np.abs(G @ weight @ G.T), points, optimize=True)
    total = np.einsum("ai,oyxij,bj->oyaxb", A_T, products, A_T)
    return total.reshape(len(weight), height + odd[0], width + odd[1])[:, :height, :width]


def bound(
    network: Network, arrays: Any, image: NDArray[np.float32], padding: tuple[int, int]
) -> NDArray[np.float64]:
    """eps x (terms + 1) x sum |w||x|, with the sum of ``tile_sum``; each transform adds four roundings."""
    names = [n.name for n in network if n.op == "conv2d"]
    total = sum(
        tile_sum(arrays[f"{n}.weight"].astype(float), image[0].astype(float), padding)
        + np.abs(arrays[f"{n}.bias"][:, None, None])
        for n in names
    )
    terms = len(names) * (image.shape[1] + 9)
    return (EPS * (terms + 1) * total * (6 if "act" in network else 1) + EPS).reshape(-1)


def run(
    shape: tuple[int, int, int],
    out: int,
    isa: str,
    rng: np.random.Generator,
    padding: tuple[int, int] = (1, 1),
    density: float = 1.0,
    **options: Any,
) -> None:
    network = conv_network(shape, out, (3, 3), padding=padding, **options)
    arrays = weights_for(network, rng, density)
    image = rng.standard_normal((1, *shape), dtype=np.float32)
    assert "winograd" in kernels(compile_model(Model(network, arrays), isa=isa))
    check(network, arrays, image, bound(network, arrays, image, padding), isa=isa)


@pytest.mark.parametrize("height", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("width", [2, 3, 7, 8, 9, 14, 15, 16, 17, 18, 31, 32, 33, 34, 47, 63, 64, 65])
def test_tile_edges(height: int, width: int, isa: str, always: None, rng: np.random.Generator) -> None:
    run((3, height, width), 5, isa, rng)


@pytest.mark.parametrize("padding", [(0, 0), (1, 1), (2, 2), (0, 2), (2, 1), (4, 3)])
@pytest.mark.parametrize("size", [(3, 4), (5, 5), (6, 9), (13, 33), (20, 7)])
def test_paddings(
    size: tuple[int, int], padding: tuple[int, int], isa: str, always: None, rng: np.random.Generator
) -> None:
    run((4, *size), 6, isa, rng, padding, residual=True)


@pytest.mark.parametrize("channels", [2, 3, 31])
@pytest.mark.parametrize("out", [1, 3, 4, 7, 8, 9, 63, 64, 65])
def test_channels(channels: int, out: int, isa: str, always: None, rng: np.random.Generator) -> None:
    run((channels, 6, 7), out, isa, rng)


@pytest.mark.parametrize("density", [0.0, ONE_GROUP, 0.1, 1.0])
def test_densities(density: float, isa: str, always: None, rng: np.random.Generator) -> None:
    run((8, 10, 9), 12, isa, rng, density=density)


@pytest.mark.parametrize("activation", ["", "relu", "relu6", "hardswish", "hardsigmoid", "sigmoid", "silu"])
@pytest.mark.parametrize("residual", [False, True])
def test_fused(activation: str, residual: bool, isa: str, always: None, rng: np.random.Generator) -> None:
    run((8, 9, 21), 10, isa, rng, activation=activation, residual=residual)


def test_several_bands(isa: str, always: None, rng: np.random.Generator) -> None:
    """Tiles of more than one band, and output channels of more than one pass."""
    run((90, 39, 40), 70, isa, rng, residual=True)


@pytest.mark.parametrize("density", [ONE_GROUP, 1.0])
def test_cancellation(density: float, isa: str, always: None, rng: np.random.Generator) -> None:
    """Each weight meets its negative on the same pixels: only rounding is left."""
    network = conv_network((64, 9, 9), 8, (3, 3), padding=(1, 1))
    arrays = weights_for(network, rng, density)
    arrays["conv.weight"][:, 32:] = -arrays["conv.weight"][:, :32]
    image = rng.standard_normal((1, 64, 9, 9), dtype=np.float32)
    image[:, 32:] = image[:, :32]
    got = poisoned(compile_model(Model(network, arrays), isa=isa), image)
    want = np.repeat(arrays["conv.bias"].astype(float), 81)
    assert np.all(np.abs(got - want) <= bound(network, arrays, image, (1, 1)))


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("shape", [(90, 39, 40), (5, 14, 14), (5, 3, 3)])
def test_threads_give_the_same_bits(
    shape: tuple[int, int, int], threads: int, isa: str, always: None, rng: np.random.Generator
) -> None:
    """Threads also cut the bands elsewhere; bits do not depend on that either."""
    network = conv_network(shape, 70, (3, 3), padding=(1, 1), activation="relu", residual=True)
    model = Model(network, weights_for(network, rng))
    image = rng.standard_normal((1, *shape), dtype=np.float32)
    alone = compile_model(model, isa=isa).run(image)
    assert poisoned(compile_model(model, threads=threads, isa=isa), image).tobytes() == alone[0].tobytes()


@pytest.mark.parametrize("threads", [1, 2])
def test_whole_networks(threads: int, isa: str, always: None, rng: np.random.Generator) -> None:
    """Layers read the zeros around planes whose memory others had before."""
    b = NetworkBuilder("net", (3, 60, 61))
    for i, (width, stride) in enumerate([(40, 1), (24, 1), (48, 2), (40, 1), (40, 1), (24, 1)]):
        b.conv(f"conv{i}", width, 3, stride=stride, bias=True)
        b.add(f"relu{i}", "relu")
    network = b.build()
    arrays = weights_for(network, rng)
    image = rng.standard_normal((1, 3, 60, 61), dtype=np.float32)
    program = compile_model(Model(network, arrays), threads=threads, isa=isa)
    assert kernels(program).count("winograd") == 5
    got, want = poisoned(program, image), reference.run(network, arrays, image[0])
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


def test_nan_stays_within_the_tiles_that_read_it(isa: str, always: None, rng: np.random.Generator) -> None:
    network = conv_network((3, 11, 13), 4, (3, 3), padding=(1, 1))
    program = compile_model(Model(network, weights_for(network, rng)), isa=isa)
    image = rng.standard_normal((1, 3, 11, 13), dtype=np.float32)
    clean = program.run(image).reshape(4, 11, 13)
    for y, x in [(0, 0), (5, 6), (6, 5), (10, 12)]:
        damaged = image.copy()
        damaged[0, 1, y, x] = np.nan
        got = program.run(damaged).reshape(4, 11, 13)
        window = slice(max(y - 1, 0), y + 2), slice(max(x - 1, 0), x + 2)
        assert np.isnan(got[:, *window]).all()
        rows, columns = (slice(max((at - 1) // 2 * 2, 0), (at + 1) // 2 * 2 + 2) for at in (y, x))
        got[:, rows, columns] = clean[:, rows, columns]
        assert got.tobytes() == clean.tobytes()


def chosen(isa: str, density: float = 1.0, **fields: Any) -> str:
    shape = {"in_channels": 64, "in_height": 14, "in_width": 14, "out_channels": 64} | fields
    windows = {"kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1)} | fields
    problem = LayerProblem("conv2d", **{**shape, **windows}, density=density)
    return kernels(Program(layer_file(problem, np.random.default_rng(0))[0], isa=isa))[-1]


def test_chosen_from_one_density_on(isa: str) -> None:
    found = [chosen(isa, density) == "winograd" for density in np.linspace(0.05, 1, 20)]
    assert not found[0]
    assert found[-1]
    assert all(before <= after for before, after in pairwise(found))


@pytest.mark.parametrize(
    "fields",
    [
        {"stride": (2, 2)},
        {"kernel_size": (5, 5), "padding": (2, 2)},
        {"kernel_size": (1, 3)},
        {"groups": 2},
    ],
)
def test_other_convolutions_are_not_computed_so(fields: dict[str, Any], isa: str, always: None) -> None:
    assert chosen(isa, **fields) != "winograd"


def test_not_chosen_for_few_channels_or_tiles(isa: str) -> None:
    assert chosen(isa, in_channels=3) != "winograd"
    assert chosen(isa, in_height=2, in_width=2) != "winograd"


def test_forced_by_the_environment(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JCW_WINOGRAD", "never")
    assert chosen(isa) != "winograd"
    monkeypatch.setenv("JCW_WINOGRAD", "always")
    assert chosen(isa, 0.05) == "winograd"
    monkeypatch.setenv("JCW_WINOGRAD", "perhaps")
    with pytest.raises(JcwError, match="'perhaps', expected always or never"):
        chosen(available_isas()[0])
