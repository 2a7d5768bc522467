"""Misuse of a program, and the choice of instruction set."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from kernel_samples import conv_network, weights_for

from jcw_core.errors import DeviceError, JcwError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.model import Model
from jcw_core.network.operations import ACTIVATIONS
from jcw_kernels import Program, available_isas, chosen_isa, compile_model
from jcw_kernels._engine import Engine
from jcw_kernels.model_file import serialize


@pytest.fixture
def program(rng: np.random.Generator) -> Program:
    network = conv_network((3, 6, 5), 4, (3, 3), padding=(1, 1))
    return compile_model(Model(network, weights_for(network, rng)))


@pytest.mark.parametrize(
    ("images", "match"),
    [
        (np.zeros((1, 3, 5, 6), np.float32), r"\(n, 3, 6, 5\)"),
        (np.zeros((3, 6, 5), np.float32), r"expected \(n"),
        (np.zeros((1, 3, 6, 5)), "float64, expected"),
        (np.zeros((1, 3, 6, 5), np.float16), "float16"),
        (np.zeros((2, 3, 6, 5), np.float32)[::-1], "contiguous"),
        (np.zeros((5, 6, 3, 1), np.float32).T, "contiguous"),
        ([[0.0]], "list"),
    ],
)
def test_wrong_images(program: Program, images: Any, match: str) -> None:
    with pytest.raises(JcwError, match=match):
        program.run(images)


def test_no_images(program: Program) -> None:
    assert program.run(np.zeros((0, 3, 6, 5), np.float32)).shape == (0, 120)


@pytest.mark.parametrize("activation", sorted({*ACTIVATIONS, "leaky_relu"}))
def test_nan_reaches_the_output_of_activations(activation: str, isa: str) -> None:
    b = NetworkBuilder("act", (1, 2, 4))
    b.add("act", activation, **({"slope": 0.1} if activation == "leaky_relu" else {}))
    image = np.zeros((1, 1, 2, 4), np.float32)
    bits = [0x7FC00000, 0x7FC00001, 0x7FC00100, 0xFFC00003, 0x7FFFFFFF, 0xFFFFFFFF, 0xFFC00000, 0x7FD5AAAA]
    image.view(np.uint32)[...] = np.reshape(bits, image.shape)
    assert np.isnan(compile_model(Model(b.build(), {}), isa=isa).run(image)).all()


@pytest.mark.parametrize("threads", [0, -1, 1000])
def test_wrong_threads(threads: int, rng: np.random.Generator) -> None:
    network = conv_network((1, 4, 4), 1, (1, 1))
    with pytest.raises(JcwError, match="threads"):
        compile_model(Model(network, weights_for(network, rng)), threads=threads)


@pytest.mark.parametrize("threads", [0, -1])
def test_the_engine_itself_runs_no_program_without_threads(threads: int, rng: np.random.Generator) -> None:
    network = conv_network((1, 4, 4), 1, (1, 1))
    with pytest.raises(ValueError, match="threads is below 1"):
        Engine(serialize(Model(network, weights_for(network, rng))), threads)


def test_unknown_isa_lists_what_there_is() -> None:
    with pytest.raises(DeviceError, match=r"'sse9' is not available here; choose one of .*scalar"):
        chosen_isa("sse9")


@pytest.mark.parametrize("name", available_isas())
def test_environment_forces_isa(name: str) -> None:
    code = "import jcw_kernels; print(jcw_kernels.chosen_isa())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "JCW_ISA": name},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == name


def test_import_is_light() -> None:
    code = "import sys, jcw_kernels; print(sorted({'torch', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_profile_is_not_disturbed_by_a_moment_without_the_core(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = len(program.profile(rounds=1))

    class Disturbed:
        calls = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(engine, name)

        def profile(self, image: Any, rounds: int) -> list[float]:
            self.calls += 1
            return [1.0 if self.calls == 3 else 1e-3] * usual

    engine = program._engine
    monkeypatch.setattr(program, "_engine", Disturbed())
    assert {step.seconds for step in program.profile(rounds=5)} == {1e-3}


def test_profile_names_every_layer(program: Program) -> None:
    steps = program.profile(rounds=2)
    assert steps[-1].layer == "conv"
    assert steps[-1].kernel in ("dense", "sparse")
    assert all(step.seconds > 0 for step in steps)
