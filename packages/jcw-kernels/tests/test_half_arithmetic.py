"""Half precision: long sums, every number, whole networks, and what files say of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kernel_reference as reference
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_samples import (
    HALF_EPS,
    HALF_TERMS,
    PROBLEMS,
    check,
    conv_bound,
    conv_network,
    poisoned,
    weights_for,
)
from random_programs import model_file, random_program
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save
from test_networks import BACKBONES, small_model

from jcw_core.errors import FormatError, JcwError
from jcw_core.files import safetensors_metadata
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.model import Model
from jcw_core.protocols import Backbone, Precision
from jcw_kernels import Program, available_isas, compile_model
from jcw_kernels.exporter import JcwExporter
from jcw_kernels.layer_program import layer_file
from jcw_kernels.model_file import serialize, stated
from jcw_kernels.quantization import Numbers

HALF: Precision = "float16"
PARTS = [
    1,
    HALF_TERMS,
    HALF_TERMS + 1,
    2 * HALF_TERMS + 1,
    4 * HALF_TERMS,
    4 * HALF_TERMS + 1,
    20 * HALF_TERMS + 1,
]
"""Numbers of products to both sides of those that are added up in one part, and in several before floats are."""


@pytest.mark.parametrize("density", [0.3, 1.0])
@pytest.mark.parametrize("terms", PARTS)
@pytest.mark.parametrize("out", [3, 9])
def test_errors_do_not_grow_with_the_terms(
    out: int, terms: int, density: float, isa: str, rng: np.random.Generator
) -> None:
    network = conv_network((terms, 5, 11), out, (1, 1), residual=True)
    arrays = weights_for(network, rng, density)
    image = rng.standard_normal((1, terms, 5, 11), dtype=np.float32)
    check(network, arrays, image, conv_bound(network, arrays, image, HALF), isa=isa, precision=HALF)


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("channels", [16, 64, 512])
def test_errors_are_of_the_last_bits_in_the_mean(
    channels: int, kernel: int, isa: str, rng: np.random.Generator
) -> None:
    network = conv_network((channels, 7, 7), 16, (kernel, kernel), padding=(kernel // 2,) * 2)
    arrays = weights_for(network, rng)
    image = rng.standard_normal((1, channels, 7, 7), dtype=np.float32)
    want = reference.run(network, arrays, image[0])
    got = compile_model(Model(network, arrays), isa=isa, precision=HALF).run(image)[0]
    assert np.linalg.norm(got - want) <= 2 * HALF_EPS * np.linalg.norm(want)


@pytest.mark.parametrize("kernel", [1, 3])
def test_sums_beyond_what_half_precision_counts(kernel: int, isa: str) -> None:
    """One by one, it would stop at 2048."""
    network = conv_network((4608 // kernel**2, kernel, kernel + 1), 5, (kernel, kernel))
    arrays = {name: np.ones(shape, np.float32) for name, shape in network.parameter_shapes.items()}
    image = np.ones((1, *network.input_shape), np.float32)
    assert (compile_model(Model(network, arrays), isa=isa, precision=HALF).run(image) == 4608).all()


@pytest.mark.parametrize("op", ["avg_pool", "depthwise"])
@pytest.mark.parametrize("size", [7, 9, 16, 17, 47])
def test_windows_of_many_taps(size: int, op: str, isa: str, rng: np.random.Generator) -> None:
    b = NetworkBuilder("window", (3, size, size + 2))
    b.add("copy", "relu")
    if op == "avg_pool":
        b.pool("conv", op, size, 1, 0)
    else:
        attributes: dict[str, Any] = {"kernel_size": (size, size), "stride": (1, 1), "padding": (0, 0)}
        b.add("conv", "conv2d", out_channels=3, groups=3, bias=True, **attributes)
    network = b.build()
    arrays = weights_for(network, rng)
    image = np.abs(rng.standard_normal((1, 3, size, size + 2), dtype=np.float32))
    total = reference.run(network, {name: np.abs(array) for name, array in arrays.items()}, image[0])
    bound = HALF_EPS * (min(size**2, HALF_TERMS) + 8) * total + HALF_EPS
    check(network, arrays, image, bound, isa=isa, precision=HALF)


def test_every_number_passes_as_it_is(isa: str) -> None:
    network = NetworkBuilder("copy", (1, 64, 1024)).build()
    with np.errstate(invalid="ignore"):  # ARM reports NaN that signals
        every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    image = every.reshape(1, 1, 64, 1024)
    np.testing.assert_array_equal(
        compile_model(Model(network, {}), isa=isa, precision=HALF).run(image)[0], every
    )


def test_other_numbers_become_the_nearest(isa: str, rng: np.random.Generator) -> None:
    """Those between two become the even one; weights do as pixels do."""
    every = np.arange(1 << 15, dtype=np.uint16).view(np.float16)[: 31 << 10].astype(np.float64)
    middles = (every[1:] + every[:-1]) / 2
    beside = [np.nextafter(middles.astype(np.float32), np.float32(to)) for to in (0, np.inf)]
    more = np.array([65504, 65519.996, 65520, 1e9, np.inf, 1e-8, 1e-30, 0], np.float32)
    numbers = np.concatenate([middles.astype(np.float32), *beside, more])
    numbers = np.concatenate([numbers, -numbers])
    numbers = np.pad(numbers, (0, -len(numbers) % 1024))
    with np.errstate(over="ignore"):
        want = numbers.astype(np.float16).astype(np.float32)
    image = numbers.reshape(1, 1, -1, 1024)
    network = NetworkBuilder("copy", image.shape[1:]).build()
    program = compile_model(Model(network, {}), isa=isa, precision=HALF)
    np.testing.assert_array_equal(program.run(image)[0], want)
    b = NetworkBuilder("weights", (1, 4, 4))
    b.conv("conv", 256, 1)
    finite = rng.choice(numbers[np.isfinite(want)], 256)
    arrays = {"conv.weight": finite.reshape(256, 1, 1, 1)}
    got = compile_model(Model(b.build(), arrays), isa=isa, precision=HALF).run(
        np.ones((1, 1, 4, 4), np.float32)
    )
    np.testing.assert_array_equal(got.reshape(256, 16)[:, 5], finite.astype(np.float16))


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda b: b.name)
@pytest.mark.parametrize(("size", "density"), [(28, 0.3), (36, 1.0), (33, 0.1), (96, 0.5)])
def test_backbones(backbone: Backbone, size: int, density: float, isa: str, rng: np.random.Generator) -> None:
    model = small_model(backbone, size, density, rng)
    image = rng.standard_normal((1, 3, size, size), dtype=np.float32)
    want = reference.run(model.network, model.weights, image[0])
    alone = compile_model(model, isa=isa, precision=HALF)
    got = poisoned(alone, image)
    assert np.abs(got - want).max() <= 16 * HALF_EPS * np.abs(want).max()
    together = compile_model(model, isa=isa, precision=HALF, threads=3)
    assert poisoned(together, image).tobytes() == got.tobytes()
    # Vectors of 32 numbers leave more of small planes empty.
    most = 0.9 if "avx512" in repr(alone) else 0.7
    assert alone.memory_bytes < most * compile_model(model, isa=isa).memory_bytes


@given(seed=st.integers(0, 2**32 - 1))
def test_programs_compute_what_numpy_does(seed: int) -> None:
    draft = random_program(np.random.default_rng(seed))
    file, want = with_precision(draft.file(), HALF), draft.values[-1].reshape(-1)
    largest = max(1.0, *(np.abs(value).max() for value in draft.values))
    # Some instruction sets have the same kernels of half precision beside them.
    for isa in {Program(file, isa=isa).isa: isa for isa in available_isas()}.values():
        got = poisoned(Program(file, isa=isa), draft.image)
        assert np.abs(got - want).max() <= 32 * HALF_EPS * largest, isa
        assert poisoned(Program(file, isa=isa, threads=3), draft.image).tobytes() == got.tobytes(), isa


def with_precision(file: bytes, precision: str) -> bytes:
    """The same file, stating another precision."""
    metadata = {
        k: v for k, v in safetensors_metadata(file).items() if k not in ("format", "precision", "checksum")
    }
    tensors = load_tensors(file)
    return save(tensors, stated({**metadata, "precision": precision}, tensors))


def test_files_state_what_they_compute_in() -> None:
    network = conv_network((3, 4, 5), 4, (1, 1))
    model = Model(network, weights_for(network, np.random.default_rng(0)))
    assert safetensors_metadata(serialize(model, precision=HALF))["precision"] == "float16"
    with pytest.raises(
        FormatError, match="of precision float8, this engine computes in float32, float16 and int8"
    ):
        Program(with_precision(serialize(model), "float8"))


def test_half_precision_and_whole_numbers_exclude_each_other() -> None:
    network = conv_network((3, 4, 5), 4, (1, 1))
    model = Model(network, weights_for(network, np.random.default_rng(0)))
    numbers = {"conv": Numbers(0.1, 3, np.zeros(3))}
    with pytest.raises(JcwError, match="'float16', but quantization asks for int8"):
        serialize(model, quantization=numbers, precision=HALF)
    with pytest.raises(JcwError, match="'int8' without quantization"):
        serialize(model, precision="int8")
    file = with_precision(serialize(model, quantization=numbers), HALF)
    with pytest.raises(FormatError, match="unit conv: has an input_scale in a file of precision float16"):
        Program(file)


def test_the_exporter_asks_for_it(tmp_path: Path, rng: np.random.Generator) -> None:
    network = conv_network((3, 4, 5), 4, (1, 1))
    path = tmp_path / "model.jcw"
    JcwExporter().in_half_precision().export(Model(network, weights_for(network, rng)), path)
    file = path.read_bytes()
    assert safetensors_metadata(file)["precision"] == "float16"
    assert {array.dtype for name, array in load_tensors(file).items() if name.endswith("weight")} == {
        np.dtype(np.float16)
    }


def test_layers_are_timed_in_it(rng: np.random.Generator) -> None:
    for problem in PROBLEMS:
        file, _ = layer_file(problem, rng, HALF)
        assert safetensors_metadata(file)["precision"] == "float16"
        program = Program(file)
        assert np.isfinite(program.run(np.ones((1, *program.input_shape), np.float32))).all()


def test_steps_move_half_the_bytes(isa: str) -> None:
    unit = {"name": "u", "op": "activation", "inputs": [0], "activation": "relu"}
    program = {"input": [4, 16, 16], "units": [unit], "output": 1}
    file = model_file(program, {"unused": np.zeros(1, np.float32)})
    assert json.loads(safetensors_metadata(file)["program"]) == program
    floats, halves = (
        Program(with_precision(file, p), isa=isa)._engine.steps()[-1] for p in ("float32", "float16")
    )
    assert halves[4] == floats[4] / 2
