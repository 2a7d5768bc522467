"""Every legal layer is loaded, here and by ``jcw-device``; those with long rows compute what float64 does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from device_program import answer
from device_program import layer_file as write_layers
from kernel_samples import check, conv_bound, conv_network, weights_for
from legal_layers import large, small, strided

from jcw_core.errors import JcwError
from jcw_core.network.problem import LayerProblem
from jcw_kernels import Program
from jcw_kernels.layer_program import layer_file


def refused(problems: Iterable[LayerProblem], isa: str) -> list[str]:
    """What the engine says of the problems that it does not load."""
    rng = np.random.default_rng(0)
    said = []
    for problem in problems:
        try:
            Program(layer_file(problem, rng)[0], isa=isa)
        except JcwError as error:
            said.append(f"{error}: {problem}")
    return said


def test_small_layers_are_loaded() -> None:
    assert refused(small(), "") == []


def test_large_layers_are_loaded(isa: str, rng: np.random.Generator) -> None:
    assert refused(large(rng, 250), isa) == []


def test_strided_layers_of_one_band_are_loaded(isa: str, rng: np.random.Generator) -> None:
    assert refused(strided(rng, 150), isa) == []


def test_the_device_times_strided_layers_of_one_band(
    program: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    file = write_layers(tmp_path / "layers", *strided(rng, 20))
    _, once = answer(program, "layers", file, "--once")
    assert None not in once["seconds"]
    assert len(once["seconds"]) == 20


def test_strided_layers_of_one_band_compute_what_float64_does(isa: str, rng: np.random.Generator) -> None:
    for problem in strided(rng, 12):
        network = conv_network(
            (problem.in_channels, problem.in_height, problem.in_width),
            5,
            problem.kernel_size,
            problem.stride,
            problem.padding,
            activation="relu",
        )
        arrays = weights_for(network, rng, 0.5)
        image = rng.standard_normal((1, *network.input_shape), dtype=np.float32)
        check(network, arrays, image, conv_bound(network, arrays, image), isa=isa)


def test_large_layers_compute_what_float64_does(isa: str, rng: np.random.Generator) -> None:
    plain = [p for p in large(rng, 150) if p.op == "conv2d" and p.in_height * p.in_width < 3e4]
    cheap = [p for p in plain if p.out_height * p.out_width * p.kernel_size[0] * p.kernel_size[1] < 3e6]
    assert len(cheap) > 10
    for problem in cheap[:20]:
        shape = (problem.in_channels, problem.in_height, problem.in_width)
        window = (problem.kernel_size, problem.stride, problem.padding)
        network = conv_network(shape, problem.out_channels, *window, groups=problem.groups)
        arrays = weights_for(network, rng)
        image = rng.standard_normal((1, *shape), dtype=np.float32)
        check(network, arrays, image, conv_bound(network, arrays, image), isa=isa)


@pytest.mark.parametrize("size", [14, 28])
@pytest.mark.parametrize(("kernel", "stride"), [(5, 2), (7, 1), (7, 2)])
def test_depthwise_windows_of_small_planes(
    kernel: int, stride: int, size: int, isa: str, rng: np.random.Generator
) -> None:
    window = ((kernel, kernel), (stride, stride), (kernel // 2, kernel // 2))
    network = conv_network((9, size, size), 9, *window, groups=9, activation="hardswish")
    arrays = weights_for(network, rng)
    image = rng.standard_normal((1, 9, size, size), dtype=np.float32)
    check(network, arrays, image, conv_bound(network, arrays, image), isa=isa)
