"""Runs of many images, of which each thread takes whole ones."""

from __future__ import annotations

import numpy as np
import pytest
from image_models import model
from kernel_samples import conv_network, weights_for
from numpy.typing import NDArray

from jcw_core.errors import DeviceError
from jcw_core.network.model import Model
from jcw_core.protocols import Precision
from jcw_kernels import Program, available_isas, calibrate, compile_model

MODEL = model(1, 1, bias=True, norm=True, branches=2)
COUNTS = (1, 5, 6, 7, 8, 11)
"""Images: too few for three threads, and as many as leave 0, 1 and 2 over."""


def images_of(program: Program, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    return rng.standard_normal((count, *program.input_shape), dtype=np.float32)


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_they_have_the_bits_of_one_thread(precision: Precision, isa: str, rng: np.random.Generator) -> None:
    numbers = None
    if precision == "int8":
        pixels = rng.standard_normal((8, *MODEL.network.input_shape), dtype=np.float32)
        numbers = calibrate(MODEL, pixels)
    kind: Precision = "float16" if precision == "float16" else "float32"
    one, three = (
        compile_model(MODEL, isa=isa, threads=threads, precision=kind, quantization=numbers)
        for threads in (1, 3)
    )
    for count in COUNTS:
        images = images_of(one, count, rng)
        want = one.run(images)
        np.testing.assert_array_equal(three.run(images), want)
        three._engine.poison()
        np.testing.assert_array_equal(three.run(images), want)


def test_memory_is_taken_once_there_are_many(rng: np.random.Generator) -> None:
    program = compile_model(MODEL, threads=3)
    alone = program.memory_bytes
    program.run(images_of(program, 5, rng))
    assert program.memory_bytes == alone
    for _ in range(2):
        program.run(images_of(program, 6, rng))
        assert alone < program.memory_bytes <= 3 * alone


@pytest.mark.parametrize("error", [DeviceError, MemoryError])
def test_without_the_memory_images_follow_one_another(
    error: type[Exception], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compile_model(MODEL, threads=2)
    images, engine, asked = images_of(program, 9, rng), program._engine, []

    class Engine:
        """One that finds no memory."""

        input_shape, threads, run = engine.input_shape, engine.threads, engine.run

        def add_lanes(self, file: bytes) -> None:
            asked.append(len(file))
            raise error("no memory")

    monkeypatch.setattr(program, "_engine", Engine())
    for _ in range(2):
        np.testing.assert_array_equal(program.run(images), compile_model(MODEL).run(images))
    assert len(asked) == 1


def test_settings_that_changed_meanwhile_change_no_weights_of_others(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are shared where they are the same, and only there."""
    network = conv_network((16, 12, 12), 16, (3, 3), padding=(1, 1))
    monkeypatch.setenv("JCW_WINOGRAD", "always")
    program = compile_model(Model(network, weights_for(network, rng)), threads=2)
    images = images_of(program, 6, rng)
    want = np.concatenate([program.run(image[None]) for image in images])
    monkeypatch.setenv("JCW_WINOGRAD", "never")
    np.testing.assert_allclose(program.run(images), want, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(np.concatenate([program.run(image[None]) for image in images]), want)
