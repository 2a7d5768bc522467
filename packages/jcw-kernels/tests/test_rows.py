"""Dense convolutions row by row: against float64, the same bits on any threads, and chosen where it pays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from kernel_samples import check, conv_bound, conv_network, kernels, poisoned, weights_for

from jcw_core.network.model import Model
from jcw_core.network.problem import LayerProblem
from jcw_kernels import Program, compile_model
from jcw_kernels.layer_program import layer_file

HAVE_ROWS = ["avx512"]


@pytest.fixture(autouse=True)
def no_winograd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JCW_WINOGRAD", "never")


def run(
    shape: tuple[int, int, int],
    out: int,
    isa: str,
    rng: np.random.Generator,
    kernel: tuple[int, int] = (3, 3),
    **options: Any,
) -> None:
    network = conv_network(shape, out, kernel, padding=tuple(k // 2 for k in kernel), **options)
    arrays = weights_for(network, rng)
    image = rng.standard_normal((1, *shape), dtype=np.float32)
    assert ("rows" in kernels(compile_model(Model(network, arrays), isa=isa))) == (isa in HAVE_ROWS)
    check(network, arrays, image, conv_bound(network, arrays, image), isa=isa)


@pytest.mark.parametrize(
    "size",
    # widths to both sides of whole tiles, heights that leave rows over
    [
        (1, 4),
        (3, 4),
        (9, 5),
        (3, 6),
        (5, 7),
        (7, 7),
        (1, 8),
        (3, 9),
        (1, 13),
        (3, 14),
        (5, 15),
        (1, 16),
        (3, 27),
        (1, 28),
        (1, 29),
    ],
)
def test_tile_edges(size: tuple[int, int], isa: str, rng: np.random.Generator) -> None:
    run((100, *size), 32, isa, rng)


@pytest.mark.parametrize("out", [29, 31, 32, 61, 64, 96])
def test_output_channels(out: int, isa: str, rng: np.random.Generator) -> None:
    run((260, 7, 7), out, isa, rng, kernel=(1, 1))


@pytest.mark.parametrize("activation", ["", "relu", "relu6", "hardswish", "hardsigmoid", "sigmoid", "silu"])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("width", [7, 14])
def test_fused(width: int, residual: bool, activation: str, isa: str, rng: np.random.Generator) -> None:
    run((130, 7, width), 31, isa, rng, activation=activation, residual=residual)


@pytest.mark.parametrize("stride", [2, 3])
def test_strides(stride: int, isa: str, rng: np.random.Generator) -> None:
    run((40, 7 * stride, 7 * stride), 32, isa, rng, stride=(stride, stride))


def test_bands_of_rows(isa: str, rng: np.random.Generator) -> None:
    """More input than a band holds."""
    run((700, 14, 14), 32, isa, rng, kernel=(1, 1))


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("shape", [(130, 7, 7), (100, 43, 4)])
def test_threads_give_the_same_bits(
    shape: tuple[int, int, int], threads: int, isa: str, rng: np.random.Generator
) -> None:
    network = conv_network(shape, 96, (3, 3), padding=(1, 1), activation="relu", residual=True)
    model = Model(network, weights_for(network, rng))
    image = rng.standard_normal((1, *shape), dtype=np.float32)
    alone = compile_model(model, isa=isa).run(image)
    assert poisoned(compile_model(model, threads=threads, isa=isa), image).tobytes() == alone[0].tobytes()


def chosen(isa: str, density: float = 1.0, **fields: Any) -> str:
    shape = {"in_channels": 256, "in_height": 7, "in_width": 7, "out_channels": 64} | fields
    problem = LayerProblem("conv2d", **shape, density=density)
    return kernels(Program(layer_file(problem, np.random.default_rng(0))[0], isa=isa))[-1]


def test_chosen_from_one_density_on(isa: str) -> None:
    found = [chosen(isa, density) == "rows" for density in np.linspace(0.05, 1, 20)]
    assert not found[0]
    assert found[-1] == (isa in HAVE_ROWS)
    assert all(before <= after for before, after in pairwise(found))


@pytest.mark.parametrize(
    "fields", [{"in_channels": 16}, {"out_channels": 8}, {"in_width": 2}, {"in_height": 56, "in_width": 56}]
)
def test_not_chosen_where_it_is_slower(fields: dict[str, Any], isa: str) -> None:
    assert chosen(isa, **fields) != "rows"
