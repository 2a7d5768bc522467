"""``jcw-device``, the program for machines without Python, against the engine that Python runs."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_program import answer, built, complaint, layer_file
from kernel_samples import DEPTHWISE, PAIRS, PROBLEMS, conv_network, rounding, weights_for
from programs import need

from jcw_core.errors import NetworkError
from jcw_core.network.model import Model
from jcw_core.network.problem import LayerProblem
from jcw_kernels import Program, available_isas, chosen_isa, compile_model
from jcw_kernels.layer_program import layer_file as program_of

PROCESSORS = {"Nehalem": ["scalar"], "Haswell": ["avx2", "scalar"]}
"""Older processors that QEMU knows, and what runs on them."""


@pytest.fixture
def model(rng: np.random.Generator) -> Model:
    network = conv_network((5, 9, 7), 6, (3, 3), (1, 1), (1, 1), activation="hardswish")
    return Model(network, weights_for(network, rng, 0.5))


def test_describes_the_machine(program: str) -> None:
    (said,) = answer(program, "describe")
    assert said["isas"] == available_isas()
    assert said["isa"] == chosen_isa()
    assert said["version"] == version("jcw-kernels")
    assert said["cpu"]


def test_runs_images_as_the_engine_does(
    program: str, model: Model, isa: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    engine = compile_model(model, isa=isa)
    engine.save(tmp_path / "model.jcw")
    images = rng.standard_normal((3, *engine.input_shape), dtype=np.float32)
    images.tofile(tmp_path / "in.raw")
    files = ["--input", tmp_path / "in.raw", "--output", tmp_path / "out.raw"]
    assert answer(program, "run", tmp_path / "model.jcw", *files, "--isa", isa) == []
    outputs = np.fromfile(tmp_path / "out.raw", np.float32).reshape(3, -1)
    np.testing.assert_array_equal(outputs, engine.run(images))


def test_times_models_in_rounds(program: str, model: Model, tmp_path: Path) -> None:
    compile_model(model).save(tmp_path / "model.jcw")
    options = ["--rounds", 3, "--visit-ms", 0.01, "--threads", 2]
    lines = answer(program, "run", tmp_path / "model.jcw", tmp_path / "model.jcw", *options)
    assert [line["round"] for line in lines] == [0, 1, 2]
    assert np.array([line["seconds"] for line in lines]).shape == (3, 2)
    assert all(seconds > 0 for line in lines for seconds in line["seconds"])


def test_times_every_kind_of_layer(program: str, tmp_path: Path) -> None:
    file = layer_file(tmp_path / "layers", *PROBLEMS)
    about, *rounds = answer(program, "layers", file, "--rounds", 2, "--visit-ms", 0.01)
    assert len(about["kernels"]) == len(PROBLEMS)
    assert [(line["first"], line["round"]) for line in rounds] == [(0, 0), (0, 1)]
    seconds = np.array([line["seconds"] for line in rounds])
    assert seconds.shape == (2, len(PROBLEMS))
    assert (seconds > 0).all()


def test_layers_have_the_density_that_was_asked_for(program: str, tmp_path: Path) -> None:
    problems = [problem for problem in PROBLEMS if problem.macs or problem.density == 0]
    about, _ = answer(program, "layers", layer_file(tmp_path / "layers", *problems), "--once")
    for problem, macs in zip(problems, about["macs"], strict=True):
        assert macs == pytest.approx(problem.macs, abs=rounding(problem)), problem


def test_the_same_layers_are_timed_in_int8_as_here(
    program: str, isa: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    many = LayerProblem("conv2d", 64, 6, 6, 8, density=0.125)
    problems = [*PROBLEMS, many, replace(many, density=0.1)]
    options = ["--precision", "int8", "--isa", isa, "--visit-ms", 0.01]
    about, timed = answer(program, "layers", layer_file(tmp_path / "layers", *problems), *options)
    assert all(seconds > 0 for seconds in timed["seconds"])
    expected = []
    for problem in problems:
        file, _ = program_of(problem, rng, "int8")
        steps = Program(file, isa=isa).profile(rounds=1)
        expected.append(any(step.kernel.startswith("int8") for step in steps))
    assert ["int8" in kernels for kernels in about["kernels"]] == expected
    assert expected[-2:] == [True, False]


def test_every_kind_of_layer_is_timed_in_half_precision(program: str, isa: str, tmp_path: Path) -> None:
    file = layer_file(tmp_path / "layers", *PROBLEMS)
    options = ["--precision", "float16", "--isa", isa, "--visit-ms", 0.01]
    about, timed = answer(program, "layers", file, *options)
    assert all(seconds > 0 for seconds in timed["seconds"])
    for problem, macs in zip(PROBLEMS, about["macs"], strict=True):
        if problem.macs:
            assert macs == pytest.approx(problem.macs, abs=rounding(problem))


def test_kernel_names_leave_copies_out(program: str, tmp_path: Path) -> None:
    window = LayerProblem("avg_pool", 8, 7, 7, 8, (7, 7))
    problems = [window, LayerProblem("concat", 8, 7, 7, 8), replace(PAIRS[0], in_channels=33), PAIRS[0]]
    about, _ = answer(program, "layers", layer_file(tmp_path / "layers", *problems), "--once")
    assert about["kernels"] == ["pool", "copy", "sparse, depthwise", "sparse+depthwise"]


def test_large_layers_come_in_batches(program: str, tmp_path: Path) -> None:
    large = LayerProblem("linear", 8192, 1, 1, 4096)
    lines = answer(program, "layers", layer_file(tmp_path / "layers", large, large), "--once")
    assert [(line["first"], len(line.get("seconds", ()))) for line in lines] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]


def test_a_layer_beyond_the_engine_is_null(program: str, tmp_path: Path) -> None:
    """Its planes are small, but padded to whole vectors they take more than 8 GB."""
    window = {"kernel_size": (1, 4096), "stride": (1, 4096), "padding": (0, 2048)}
    large = LayerProblem("max_pool", 64, 65536, 1, 64, **window)
    _, once = answer(program, "layers", layer_file(tmp_path / "layers", large, PROBLEMS[1]), "--once")
    assert once["seconds"][0] is None
    assert once["seconds"][1] > 0


def test_wrong_settings_in_the_environment_are_errors(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JCW_WINOGRAD", "perhaps")
    said = complaint(program, "layers", layer_file(tmp_path / "layers", PROBLEMS[1]), "--once")
    assert "JCW_WINOGRAD is 'perhaps', expected always or never" in said


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "JSON at byte"),
        ("[1]", "layer 1: a layer problem is not an object"),
        ('{"op": "conv2d"}', "in_channels is missing"),
        ('{"op": "magic", "in_channels": 1, "in_height": 1, "in_width": 1}', "unknown operation 'magic'"),
        ('{"op": "conv2d", "in_channels": 0, "in_height": 1, "in_width": 1}', "in_channels is 0"),
        ('{"op": "relu", "in_channels": 65536, "in_height": 65536, "in_width": 65536}', "too large"),
        (
            '{"op": "relu", "in_channels": 1, "in_height": 1, "in_width": 1, "residual": true}',
            "takes no residual",
        ),
        ('{"op": "linear", "in_channels": 1, "in_height": 1, "in_width": 1, "density": 2}', "density is not"),
        (
            '{"op": "conv2d", "in_channels": 65536, "in_height": 1, "in_width": 1, "out_channels": 65536}',
            "too many weights",
        ),
    ],
)
def test_says_which_layer_is_wrong(program: str, line: str, problem: str, tmp_path: Path) -> None:
    file = layer_file(tmp_path / "layers", PROBLEMS[1])
    file.write_text(f"{file.read_text()}\n{line}\n")
    said = complaint(program, "layers", file)
    assert "layer 1: " in said
    assert problem in said


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"op": "relu", "out_channels": 8}, {}), ({"op": "max_pool", "out_channels": 8}, {}),
        ({"groups": 2}, {}), ({"residual": True}, {}), ({"stride": (1, 2), "in_width": 17}, {}),
        ({"kernel_size": (3, 3), "in_height": 12, "in_width": 11}, {}), ({"padding": (1, 0), "in_height": 8}, {}),
        ({"out_channels": 16}, {}), ({"in_height": 11}, {}), ({"in_width": 8}, {}),
        ({}, {"op": "max_pool"}), ({}, {"op": "linear", "in_height": 1, "in_width": 1}), ({}, {"op": "concat"}),
        ({}, {"groups": 4}), ({}, {"groups": 1}), ({}, {"groups": 0}), ({}, {"out_channels": 24}),
        ({}, {"in_channels": 8, "out_channels": 8, "groups": 8}), ({}, {"in_channels": 24}), ({}, {"in_height": 1}),
        ({}, {"kernel_size": (1, 1)}), ({}, {"kernel_size": (15, 3)}), ({}, {"kernel_size": (0, 3)}),
        ({}, {"density": 0.5}), ({}, {"density": 2}), ({}, {"stride": (0, 1)}), ({}, {"padding": (-1, 0)}),
        ({}, {"activation": "tanh"}), ({}, {"then": asdict(DEPTHWISE)}), ({}, {"in_height": 1 << 60}),
    ],
)  # fmt: skip
def test_refuses_the_pairs_that_a_layer_problem_refuses(
    program: str, first: dict[str, Any], second: dict[str, Any], tmp_path: Path
) -> None:
    fields = {**asdict(PAIRS[0]), **first, "then": {**asdict(DEPTHWISE), **second}}
    with pytest.raises((NetworkError, AttributeError)):
        LayerProblem(**{**fields, "then": LayerProblem(**fields["then"])})
    (tmp_path / "layers").write_text(json.dumps(fields))
    assert "layer 0: " in complaint(program, "layers", tmp_path / "layers")


@pytest.mark.parametrize("then", [False, 1, "conv2d", [], {}, [{}], {"op": "conv2d"}, {"op": 3}])
def test_refuses_what_is_no_second_convolution(program: str, then: object, tmp_path: Path) -> None:
    (tmp_path / "layers").write_text(json.dumps({**asdict(PAIRS[0]), "then": then}))
    assert "layer 0: " in complaint(program, "layers", tmp_path / "layers")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "usage"),
        (["layers"], "usage"),
        (["run"], "usage"),
        (["describe", "this"], "usage"),
        (["run", "absent", "--fast", "1"], "unknown option --fast"),
        (["run", "absent", "--rounds", "0"], "--rounds is '0'"),
        (["run", "absent", "--rounds", "1x"], "--rounds is '1x'"),
        (["run", "absent", "--rounds"], "needs a value"),
        (["run", "absent", "--input", "x"], "go together"),
        (["run", "absent"], "absent: cannot be opened"),
        (["run", "/"], "/: cannot be read"),
        (["layers", "/"], "/: cannot be read"),
        (["describe", "--isa", "sse"], "'sse' is not available"),
        (["describe", "--precision", "int4"], "--precision is 'int4', expected float32, float16 or int8"),
    ],
)
def test_says_what_is_wrong_with_its_arguments(program: str, arguments: list[str], problem: str) -> None:
    assert problem in complaint(program, *arguments)


def test_refuses_damaged_models_and_images(program: str, model: Model, tmp_path: Path) -> None:
    path = tmp_path / "model.jcw"
    compile_model(model).save(path)
    (tmp_path / "in.raw").write_bytes(b"1234")
    files = ["--input", tmp_path / "in.raw", "--output", tmp_path / "out.raw"]
    assert "4 bytes, expected images of 1260" in complaint(program, "run", path, *files)
    path.write_bytes(path.read_bytes()[:-3])
    assert str(path) in complaint(program, "run", path)


@pytest.fixture(params=PROCESSORS)
def processor(request: pytest.FixtureRequest) -> list[str]:
    """A command that runs a static program on an emulated older processor."""
    if platform.machine() != "x86_64":
        pytest.skip("older processors are emulated for x86-64 builds")
    need("qemu-x86_64-static")
    return ["qemu-x86_64-static", "-cpu", request.param]


def test_older_processors_get_the_same_answer(
    processor: list[str], model: Model, rng: np.random.Generator, tmp_path: Path
) -> None:
    old = [*processor, built()]
    (said,) = answer(*old, "describe")
    assert said["isas"] == PROCESSORS[processor[-1]]
    engine = compile_model(model, isa="scalar")
    engine.save(tmp_path / "model.jcw")
    image = rng.standard_normal((1, *engine.input_shape), dtype=np.float32)
    image.tofile(tmp_path / "in.raw")
    want = engine.run(image)[0]
    for isa in ["", *said["isas"]]:
        files = ["--input", tmp_path / "in.raw", "--output", tmp_path / "out.raw", "--isa", isa]
        answer(*old, "run", tmp_path / "model.jcw", *files)
        got = np.fromfile(tmp_path / "out.raw", np.float32)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_older_processors_refuse_instructions_that_they_lack(
    processor: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "'avx512' is not available" in complaint(*processor, built(), "describe", "--isa", "avx512")
    monkeypatch.setenv("JCW_ISA", "avx512")
    assert "'avx512' is not available" in complaint(*processor, built(), "describe")


def test_older_processors_run_every_kind_of_layer(processor: list[str], tmp_path: Path) -> None:
    file = layer_file(tmp_path / "layers", *PROBLEMS)
    _, once = answer(*processor, built(), "layers", file, "--once")
    assert len(once["seconds"]) == len(PROBLEMS)
