"""7 x 7 convolutions with a stride of two in Winograd's form along rows: against float64, and the same bits anywhere."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from kernel_samples import EPS, check, conv_network, kernels, poisoned, weights_for
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.network.problem import LayerProblem
from jcw_kernels import Program, compile_model
from jcw_kernels.layer_program import layer_file

POINTS = np.array([0, 1, -1, 2, -2, 0.5])
"""And infinity, the last row of each matrix."""
INNER = np.array([4, 6, 6, 24, 24])
"""What a point's distances from 0, 1, -1, 2 and -2, itself left out, multiply to."""


def powers(count: int) -> NDArray[np.float64]:
    """Of the points, one a column; of infinity the highest alone."""
    return np.vstack([POINTS[:, None] ** range(count), np.eye(count)[-1:]])


C_T = np.abs(
    [
        [4, 0, -5, 0, 1, 0, 0],
        [0, -4, -4, 1, 1, 0, 0],
        [0, 4, -4, -1, 1, 0, 0],
        [0, -2, -1, 2, 1, 0, 0],
        [0, 2, -1, -2, 1, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
        [0, 4, 0, -5, 0, 1, 0],
    ]
)
B_T = 2 * np.roll(C_T, 1, axis=1) + C_T
B_T[5] = C_T[6]
G = powers(4) / np.array([*INNER * np.abs(2 * POINTS[:5] - 1), 45 / 4, 2])[:, None]
H = powers(3) / np.array([*INNER, np.inf, 1])[:, None]
A_T = np.abs(powers(4) * np.array([1, 1, 1, 1, 1, 8, 1])[:, None]).T
"""Of four even taps (G, B_T) and of three odd ones (H, C_T); their sizes are enough here."""


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JCW_WINOGRAD", "always")


def tile_sum(
    weight: NDArray[Any], image: NDArray[np.float32], padding: tuple[int, int]
) -> NDArray[np.float64]:
    """sum |w||x| of (o, h, w) outputs where w and x are the points that Winograd's form multiplies."""
    height, width = ((n + 2 * p - 7) // 2 + 1 for n, p in zip(image.shape[1:], padding, strict=True))
    tiles = (width + 3) // 4
    padded = np.pad(np.abs(image), ((0, 0), *((p, p + 15) for p in padding)))
    patches = sliding_window_view(padded, (7, 14), axis=(1, 2))[:, ::2, ::8][:, :height, :tiles]
    total = 0
    for taps, g, b_t in ((weight[..., ::2], G, B_T), (weight[..., 1::2], H, C_T)):
        points = np.einsum("ia,cyxka->cyxki", b_t, patches[..., 0 if g is G else 1 :: 2])
        total = total + np.einsum("ocki,cyxki->oyxi", np.abs(taps @ g.T), points, optimize=True)
    outputs = np.einsum("ai,oyxi->oyxa", A_T, total)
    return outputs.reshape(len(weight), height, 4 * tiles)[..., :width]


def bound(
    network: Network, arrays: Any, image: NDArray[np.float32], padding: tuple[int, int]
) -> NDArray[np.float64]:
    """eps x (terms + 1) x sum |w||x|, with the sum of ``tile_sum``; transforms and weights add a dozen roundings."""
    names = [n.name for n in network if n.op == "conv2d"]
    total = sum(
        tile_sum(arrays[f"{n}.weight"].astype(float), image[0].astype(float), padding)
        + np.abs(arrays[f"{n}.bias"][:, None, None])
        for n in names
    )
    terms = len(names) * (14 * image.shape[1] + 12)
    return (EPS * (terms + 1) * total * (6 if "act" in network else 1) + EPS).reshape(-1)


def network_of(shape: tuple[int, int, int], out: int, padding: tuple[int, int], **options: Any) -> Network:
    return conv_network(shape, out, (7, 7), stride=(2, 2), padding=padding, **options)


def run(
    shape: tuple[int, int, int],
    out: int,
    isa: str,
    rng: np.random.Generator,
    padding: tuple[int, int] = (3, 3),
    density: float = 1.0,
    **options: Any,
) -> None:
    network = network_of(shape, out, padding, **options)
    arrays = weights_for(network, rng, density)
    image = rng.standard_normal((1, *shape), dtype=np.float32)
    assert "winograd rows" in kernels(compile_model(Model(network, arrays), isa=isa))
    check(network, arrays, image, bound(network, arrays, image, padding), isa=isa)


@pytest.mark.parametrize("height", [4, 5, 7, 18])
@pytest.mark.parametrize("width", [4, 5, 7, 8, 15, 16, 17, 31, 33, 62, 64, 65, 66, 126, 127, 128, 130, 260])
def test_tile_edges(height: int, width: int, isa: str, always: None, rng: np.random.Generator) -> None:
    run((3, height, width), 5, isa, rng)


@pytest.mark.parametrize("padding", [(0, 0), (1, 1), (2, 2), (3, 3), (3, 0), (0, 3), (2, 5), (6, 4)])
@pytest.mark.parametrize("size", [(9, 8), (13, 33), (20, 7)])
def test_paddings(
    size: tuple[int, int], padding: tuple[int, int], isa: str, always: None, rng: np.random.Generator
) -> None:
    run((2, *size), 6, isa, rng, padding, residual=True)


@pytest.mark.parametrize("channels", [1, 3, 17])
@pytest.mark.parametrize("out", [2, 4, 7, 8, 9, 15, 16, 17, 33])
def test_channels(channels: int, out: int, isa: str, always: None, rng: np.random.Generator) -> None:
    run((channels, 9, 12), out, isa, rng)


@pytest.mark.parametrize("density", [0.0, 0.1, 1.0])
def test_densities(density: float, isa: str, always: None, rng: np.random.Generator) -> None:
    run((8, 12, 9), 12, isa, rng, density=density)


@pytest.mark.parametrize("activation", ["", "relu", "relu6", "hardswish", "hardsigmoid", "sigmoid", "silu"])
@pytest.mark.parametrize("residual", [False, True])
def test_fused(activation: str, residual: bool, isa: str, always: None, rng: np.random.Generator) -> None:
    run((3, 12, 41), 10, isa, rng, activation=activation, residual=residual)


def test_bands(isa: str, always: None, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of input phases, and within them of rows."""
    monkeypatch.setenv("JCW_L2", "65536")
    run((3, 61, 90), 20, isa, rng, residual=True)


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("shape", [(3, 61, 90), (5, 14, 14), (5, 7, 7)])
def test_threads_give_the_same_bits(
    shape: tuple[int, int, int],
    threads: int,
    isa: str,
    always: None,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threads also cut the bands elsewhere; bits do not depend on that either."""
    network = network_of(shape, 20, (3, 3), activation="relu", residual=True)
    model = Model(network, weights_for(network, rng))
    image = rng.standard_normal((1, *shape), dtype=np.float32)
    alone = compile_model(model, isa=isa).run(image)
    monkeypatch.setenv("JCW_L2", "65536")
    assert poisoned(compile_model(model, threads=threads, isa=isa), image).tobytes() == alone[0].tobytes()


def test_nan_stays_within_the_tiles_that_read_it(isa: str, always: None, rng: np.random.Generator) -> None:
    network = network_of((3, 21, 23), 4, (3, 3))
    program = compile_model(Model(network, weights_for(network, rng)), isa=isa)
    image = rng.standard_normal((1, 3, 21, 23), dtype=np.float32)
    clean = program.run(image).reshape(4, 11, 12)
    for y, x in [(0, 0), (9, 12), (10, 11), (20, 22)]:
        damaged = image.copy()
        damaged[0, 1, y, x] = np.nan
        got = program.run(damaged).reshape(4, 11, 12)
        rows, columns = (slice(max((at - 2) // 2, 0), (at + 3) // 2 + 1) for at in (y, x))
        assert np.isnan(got[:, rows, columns]).all()
        columns = slice(columns.start // 4 * 4, (columns.stop + 3) // 4 * 4)
        got[:, rows, columns] = clean[:, rows, columns]
        assert got.tobytes() == clean.tobytes()


def chosen(isa: str, density: float = 1.0, **fields: Any) -> str:
    shape = {"in_channels": 3, "in_height": 112, "in_width": 112, "out_channels": 64} | fields
    windows = {"kernel_size": (7, 7), "stride": (2, 2), "padding": (3, 3)} | fields
    problem = LayerProblem("conv2d", **{**shape, **windows}, density=density)
    return kernels(Program(layer_file(problem, np.random.default_rng(0))[0], isa=isa))[-1]


def test_chosen_from_one_density_on(isa: str) -> None:
    found = [chosen(isa, density, in_channels=12) == "winograd rows" for density in np.linspace(0.05, 1, 20)]
    assert not found[0]
    assert found[-1]
    assert all(before <= after for before, after in pairwise(found))


@pytest.mark.parametrize(
    "fields",
    [
        {"stride": (1, 1)},
        {"stride": (2, 1)},
        {"kernel_size": (5, 5), "padding": (2, 2)},
        {"kernel_size": (3, 7)},
        {"groups": 4, "in_channels": 8},
    ],
)
def test_other_convolutions_are_not_computed_so(fields: dict[str, Any], isa: str, always: None) -> None:
    assert chosen(isa, **fields) != "winograd rows"


def test_not_where_it_does_not_pay(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(isa, in_height=8, in_width=8) != "winograd rows"
    monkeypatch.setenv("JCW_WINOGRAD", "never")
    assert chosen(isa) != "winograd rows"
