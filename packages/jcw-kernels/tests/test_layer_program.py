"""Layer problems as programs: what is timed of them, and that it computes what the problem says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import kernel_reference as reference
import numpy as np
import pytest
from kernel_samples import PAIRS, PROBLEMS, rounding
from numpy.typing import NDArray
from safetensors import safe_open

from jcw_core.files import safetensors_metadata
from jcw_core.network.problem import LayerProblem
from jcw_kernels import Program
from jcw_kernels.layer_program import Tensors, layer_file


def contents(
    problem: LayerProblem, rng: np.random.Generator, folder: Path
) -> tuple[bytes, int, list[str], Tensors]:
    """The file, the number of the first unit that is timed, the names of all units, and the tensors."""
    file, first = layer_file(problem, rng)
    (folder / "layer.jcw").write_bytes(file)
    with safe_open(folder / "layer.jcw", "numpy") as opened:
        names = [unit["name"] for unit in json.loads(opened.metadata()["program"])["units"]]
        return file, first, names, {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118


@pytest.mark.parametrize("problem", PROBLEMS)
def test_timed_layers_come_last(problem: LayerProblem, rng: np.random.Generator, tmp_path: Path) -> None:
    _, first, names, _ = contents(problem, rng, tmp_path)
    assert names[first:] == (["layer"] if problem.then is None else ["layer", "then"])
    assert ("other" in names) == (problem.then or problem).residual


def test_layers_that_gain_are_timed_in_int8(isa: str, rng: np.random.Generator) -> None:
    taken = []
    for problem in PROBLEMS:
        file, _ = layer_file(problem, rng, "int8")
        program = Program(file, isa=isa)
        if any(step.kernel.startswith("int8") for step in program.profile(rounds=1)):
            taken.append(problem)
        assert np.isfinite(program.run(np.ones((1, *program.input_shape), np.float32))).all()
    assert taken == [p for p in PROBLEMS if gains(p) or (p.then and gains(p.then))]
    many = LayerProblem("conv2d", 64, 6, 6, 8, density=0.125)
    linear = LayerProblem("linear", 1280, 1, 1, 100, density=0.2)
    cases = [
        (many, "int8"),
        (replace(many, density=0.1), "float32"),
        (linear, "int8"),
        (replace(linear, density=0.1), "float32"),
    ]
    for problem, name in cases:
        file, _ = layer_file(problem, rng, "int8")
        assert safetensors_metadata(file)["precision"] == name


def gains(problem: LayerProblem) -> bool:
    """Windows larger than a pixel do, and others of many inputs; depthwise ones where neighbours make and take numbers; large linear ones."""
    if problem.op == "linear":
        return problem.density >= 0.2 and problem.density * problem.in_channels * problem.out_channels >= 2048
    many = problem.kernel_size != (1, 1) or problem.density * problem.in_channels / problem.groups >= 8
    if problem.op != "conv2d" or problem.out_height == 1 or not many:
        return False
    if problem.groups == problem.in_channels == problem.out_channels:
        short = problem.stride != (1, 1) and problem.out_width <= 16
        return not short and problem.activation in ("", "relu", "relu6")
    return problem.groups == 1


@pytest.mark.parametrize("problem", [problem for problem in PROBLEMS if problem.macs or not problem.density])
def test_layers_have_the_density_that_was_asked_for(problem: LayerProblem, rng: np.random.Generator) -> None:
    file, _ = layer_file(problem, rng)
    macs = sum(step.macs for step in Program(file).profile(rounds=1) if step.layer in ("layer", "then"))
    assert macs == pytest.approx(problem.macs, abs=rounding(problem))


def weight_of(tensors: Tensors, name: str, problem: LayerProblem) -> NDArray[Any]:
    """(out, in / groups, height, width), with zeros where groups of four output channels are pruned."""
    shape = (problem.out_channels, problem.in_channels // problem.groups, *problem.kernel_size)
    if f"{name}.weight" in tensors:
        return tensors[f"{name}.weight"].reshape(shape)
    positions = shape[1] * shape[2] * shape[3]
    count = -(-shape[0] // 4) * positions
    groups = np.zeros((count, 4))
    groups[np.unpackbits(tensors[f"{name}.mask"], bitorder="little")[:count].astype(bool)] = tensors[
        f"{name}.values"
    ]
    return groups.reshape(-1, positions, 4).swapaxes(1, 2).reshape(-1, *shape[1:])[: shape[0]]


@pytest.mark.parametrize("problem", PAIRS)
def test_pairs_run_both_convolutions(
    problem: LayerProblem, isa: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    file, _, _, tensors = contents(problem, rng, tmp_path)
    image = rng.standard_normal((1, 8, 10, 9), dtype=np.float32)
    value = image[0].astype(np.float64)
    for name, p in (("layer", problem), ("then", problem.then)):
        weight = weight_of(tensors, name, p).astype(np.float64)
        value = reference.conv(value, weight, p.stride, p.padding, p.groups)
        value += tensors[f"{name}.bias"][:, None, None]
        if p.residual:
            value += tensors["other.bias"][:, None, None]
        if p.activation == "prelu":
            value = np.where(value < 0, 0.25 * value, value)
        elif p.activation:
            value = reference.ACTIVATE[p.activation](value)
    got = Program(file, isa=isa).run(image)[0]
    np.testing.assert_allclose(got, value.reshape(-1), rtol=0, atol=1e-5 * np.abs(value).max())
