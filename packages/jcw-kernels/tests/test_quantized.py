"""Convolutions and linear layers of whole numbers: bit for bit those of integers in numpy, on every instruction set."""

from __future__ import annotations

import json
from typing import Any

import kernel_reference as reference
import numpy as np
import pytest
from kernel_samples import conv_network, poisoned, weights_for
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save

from jcw_core.errors import FormatError, JcwError
from jcw_core.files import safetensors_metadata
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_kernels import Program, compile_model
from jcw_kernels.model_file import serialize, stated
from jcw_kernels.quantization import Numbers

F32 = NDArray[np.float32]
KERNELS = {"int8", "int8 depthwise", "int8 in floats", "int8 linear"}


def integers(file: bytes, image: F32, network: Network, numbers: Numbers) -> F32:
    """What the layer ``conv`` of a network of ``conv_network`` has to give."""
    tensors = load_tensors(file)
    node = network["conv"]
    scale = np.float32(numbers.scale)
    pixels = (
        np.clip(np.rint(image * (np.float32(1) / scale)) + numbers.zero, 0, 255).astype(np.int64)
        - numbers.zero
    )
    weight = expanded(tensors, network).astype(np.int64)
    if node.op == "linear":
        return (weight @ pixels.reshape(-1)).astype(np.float32) * (tensors["conv.scale"] * scale) + tensors[
            "conv.bias"
        ]
    kernel, (step_y, step_x), (top, left) = (
        node.attributes[key] for key in ("kernel_size", "stride", "padding")
    )
    pixels = np.pad(pixels, ((0, 0), (top, top), (left, left)))
    seen = sliding_window_view(pixels, kernel, axis=(1, 2))[:, ::step_y, ::step_x]
    if node.attributes["groups"] == 1:
        sums = np.einsum("chwij,ocij->ohw", seen, weight).astype(np.float32)
    else:
        sums = np.einsum("chwij,cij->chw", seen, weight[:, 0]).astype(np.float32)
    return sums * (tensors["conv.scale"] * scale)[:, None, None] + tensors["conv.bias"][:, None, None]


def expanded(tensors: Any, network: Network) -> NDArray[np.int8]:
    """Weights of ``conv`` with the groups that are left out."""
    shape = network.parameter_shapes["conv.weight"]
    if "conv.weight" in tensors:
        return tensors["conv.weight"].reshape(shape)  # type: ignore[no-any-return]
    groups, positions = -(-shape[0] // 4), int(np.prod(shape[1:]))
    kept = (
        np.unpackbits(tensors["conv.mask"], bitorder="little")[: groups * positions].reshape(
            groups, positions
        )
        > 0
    )
    by_group = np.zeros((groups, positions, 4), np.int8)
    by_group[kept] = tensors["conv.values"]
    return by_group.transpose(0, 2, 1).reshape(groups * 4, positions)[: shape[0]].reshape(shape)


def check(
    network: Network, density: float, rng: np.random.Generator, zero: int = 117, **options: Any
) -> None:
    arrays = weights_for(network, rng, density)
    image = rng.standard_normal((1, *network.input_shape), dtype=np.float32)
    numbers = Numbers(4 / 255, zero, np.zeros(network.input_shape[0]))
    file = serialize(Model(network, arrays), quantization={"conv": numbers})
    wanted = integers(file, image[0], network, numbers)
    if "sum" in network:
        own = {name: array for name, array in arrays.items() if name.startswith("other.")}
        other = compile_model(Model(without(network), own), isa=options.get("isa", ""))
        wanted = wanted + other.run(image)[0].reshape(wanted.shape)
    if "act" in network:
        wanted = np.maximum(wanted, 0)
        wanted = np.minimum(wanted, 6) if network["act"].op == "relu6" else wanted
    program = Program(file, **options)
    assert KERNELS & {step.kernel for step in program.profile(rounds=1)}
    np.testing.assert_array_equal(poisoned(program, image), wanted.reshape(-1))


def without(network: Network) -> Network:
    """The network that gives the residual alone."""
    b = NetworkBuilder("other", network.input_shape)
    if network["other"].op == "linear":
        b.add("flat", "flatten")
    b.add("other", network["other"].op, **dict(network["other"].attributes))
    return b.build()


def linear_network(inputs: int, outputs: int, activation: str = "", residual: bool = False) -> Network:
    """One linear layer, called as the convolution of ``conv_network``, and what is fused into it."""
    b = NetworkBuilder("one", (inputs, 1, 1))
    b.add("flat", "flatten")
    b.linear("conv", outputs)
    if residual:
        b.linear("other", outputs, source="flat")
        b.add("sum", "add", "conv", "other")
    if activation:
        b.add("act", activation)
    return b.build()


@pytest.mark.parametrize("density", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("inputs", [1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 130])
def test_linear_layers(inputs: int, density: float, isa: str, dot: str, rng: np.random.Generator) -> None:
    for outputs in (1, 3, 4, 5, 13):
        check(linear_network(inputs, outputs), density, rng, isa=isa, threads=1 + outputs % 2)


@pytest.mark.parametrize("activation", ["", "relu", "relu6"])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("zero", [0, 117, 255])
def test_what_is_fused_into_a_linear_one(
    activation: str, residual: bool, zero: int, isa: str, dot: str, rng: np.random.Generator
) -> None:
    network = linear_network(70, 22, activation, residual)
    for threads in (1, 2):
        check(network, 0.5, rng, zero=zero, isa=isa, threads=threads)


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding"),
    [
        ((5, 3, 4), (3, 4), (1, 1), (0, 0)),
        ((7, 1, 1), (3, 3), (1, 1), (1, 1)),
        ((9, 3, 3), (1, 1), (3, 3), (0, 0)),
        ((20, 1, 1), (1, 1), (1, 1), (0, 0)),
        ((6, 4, 5), (5, 5), (2, 3), (1, 0)),
    ],
)
def test_convolutions_that_make_one_pixel(
    shape: Any, kernel: Any, stride: Any, padding: Any, isa: str, dot: str, rng: np.random.Generator
) -> None:
    network = conv_network(shape, 10, kernel, stride, padding, activation="relu", residual=True)
    assert network.shapes["conv"] == (10, 1, 1)
    check(network, 0.6, rng, isa=isa, threads=2)


@pytest.mark.parametrize("activation", ["hardswish", "hardsigmoid", "sigmoid", "silu"])
def test_other_activations_of_a_linear_layer(
    activation: str, isa: str, dot: str, rng: np.random.Generator
) -> None:
    network, plain = linear_network(33, 6, activation), linear_network(33, 6)
    arrays, numbers = weights_for(network, rng), Numbers(4 / 255, 90, np.zeros(33))
    image = rng.standard_normal((1, 33, 1, 1), dtype=np.float32)
    file = serialize(Model(network, arrays), quantization={"conv": numbers})
    wanted = reference.ACTIVATE[activation](integers(file, image[0], plain, numbers).astype(np.float64))
    np.testing.assert_allclose(Program(file, isa=isa).run(image)[0], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("density", [0.1, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("width", [2, 15, 16, 17, 47, 64, 65, 97])
def test_run_lengths(width: int, density: float, isa: str, dot: str, rng: np.random.Generator) -> None:
    check(conv_network((7, 2, width), 9, (1, 1)), density, rng, isa=isa)


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("size", [(7, 7), (14, 13), (28, 29)])
def test_windows(
    kernel: int, stride: int, size: tuple[int, int], isa: str, dot: str, rng: np.random.Generator
) -> None:
    network = conv_network((6, *size), 6, (kernel,) * 2, (stride,) * 2, (kernel // 2,) * 2)
    for density in (0.4, 1.0):  # from .75 on pixels are gathered once for all outputs
        check(network, density, rng, isa=isa)


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (5, 5), (7, 7), (1, 4), (5, 2)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(7, 7), (14, 13), (8, 17), (28, 65)])
def test_depthwise_windows(
    kernel: tuple[int, int], stride: int, size: tuple[int, int], isa: str, dot: str, rng: np.random.Generator
) -> None:
    padding = (kernel[0] // 2, kernel[1] // 2)
    network = conv_network((9, *size), 9, kernel, (stride,) * 2, padding, groups=9)
    check(network, 1.0, rng, isa=isa, threads=stride)


@pytest.mark.parametrize("activation", ["", "relu", "relu6"])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("zero", [0, 117, 255])
def test_what_is_fused_into_a_depthwise_one(
    activation: str, residual: bool, zero: int, isa: str, dot: str, rng: np.random.Generator
) -> None:
    network = conv_network(
        (6, 20, 21), 6, (3, 3), padding=(1, 1), groups=6, activation=activation, residual=residual
    )
    check(network, 1.0, rng, zero=zero, isa=isa, threads=3)


@pytest.mark.parametrize("activation", ["", "relu", "relu6"])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_fused(
    activation: str, residual: bool, threads: int, isa: str, dot: str, rng: np.random.Generator
) -> None:
    network = conv_network((8, 20, 21), 10, (3, 3), padding=(1, 1), activation=activation, residual=residual)
    for density in (0.5, 1.0):
        check(network, density, rng, isa=isa, threads=threads)


@pytest.mark.parametrize("seed", range(30))
def test_random_layers(seed: int, isa: str, dot: str) -> None:
    rng = np.random.default_rng(seed)
    kernel = rng.integers(1, 6, 2)
    padding = rng.integers(0, kernel // 2 + 1)
    size = np.maximum(rng.integers(2, 40, 2), kernel + 1)
    shape = (int(rng.integers(2, 70)), *map(int, size))
    network = conv_network(
        shape, int(rng.integers(1, 40)), tuple(map(int, kernel)), tuple(map(int, rng.integers(1, 4, 2))),
        tuple(map(int, padding)), activation="relu", residual=bool(rng.random() < 0.3),
    )  # fmt: skip
    zero, threads = int(rng.integers(0, 256)), int(rng.integers(1, 3))
    check(network, rng.random(), rng, zero=zero, isa=isa, threads=threads)


@pytest.mark.parametrize("zero", [0, 1, 128, 255])
def test_zeros(zero: int, isa: str, dot: str, rng: np.random.Generator) -> None:
    check(conv_network((5, 9, 9), 5, (3, 3), padding=(1, 1)), 0.5, rng, zero=zero, isa=isa)


@pytest.mark.parametrize(("channels", "kernel"), [(64, 3), (518, 1), (530, 1)])
def test_the_largest_sums(channels: int, kernel: int, isa: str, dot: str) -> None:
    """Bytes at their ends, where sums of two products have no room in 16 bits; of 518, floats just hold them."""
    network = conv_network((channels, 6, 6), 4, (kernel,) * 2, padding=(kernel // 2,) * 2)
    shape = network.parameter_shapes["conv.weight"]
    arrays = {"conv.weight": np.ones(shape, np.float32), "conv.bias": np.zeros(4, np.float32)}
    arrays["conv.weight"][1:3] = -1
    arrays["conv.weight"][3, 0] = 1 / 127  # an odd sum
    image = np.full((1, channels, 6, 6), 100, np.float32)
    for zero in (0, 255):
        numbers = Numbers(0.01, zero, np.zeros(channels))
        file = serialize(Model(network, arrays), quantization={"conv": numbers})
        found = Program(file, isa=isa).run(image if zero == 0 else -image)[0]
        np.testing.assert_array_equal(
            found, integers(file, image[0] if zero == 0 else -image[0], network, numbers).reshape(-1)
        )


def test_the_largest_sums_of_a_linear_layer(isa: str, dot: str) -> None:
    """Of as many products as 32 bits hold with their zeros; one more is refused."""
    weight = np.ones((3, 33_156), np.float32)
    weight[1], weight[2, 0] = -1, 1 / 127
    for inputs in (33_155, 33_156):
        network = linear_network(inputs, 3)
        arrays = {"conv.weight": weight[:, :inputs], "conv.bias": np.zeros(3, np.float32)}
        for zero, pixel in ((0, 100), (255, -100)):
            image = np.full((1, inputs, 1, 1), pixel, np.float32)
            numbers = Numbers(0.01, zero, np.zeros(inputs))
            file = serialize(Model(network, arrays), quantization={"conv": numbers})
            if inputs == 33_156:
                with pytest.raises(FormatError, match="too many products"):
                    Program(file, isa=isa)
                continue
            np.testing.assert_array_equal(
                Program(file, isa=isa).run(image)[0], integers(file, image[0], network, numbers)
            )


def test_nan_is_the_least_number(isa: str, dot: str) -> None:
    network = conv_network((1, 1, 4), 2, (1, 1))
    arrays = {"conv.weight": np.ones((2, 1, 1, 1), np.float32), "conv.bias": np.zeros(2, np.float32)}
    file = serialize(Model(network, arrays), quantization={"conv": Numbers(1.0, 10, np.zeros(1))})
    image = np.array([np.nan, -np.nan, np.inf, -np.inf], np.float32).reshape(1, 1, 1, 4)
    np.testing.assert_allclose(Program(file, isa=isa).run(image)[0], 2 * [-10, -10, 245, -10], rtol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(2, 2, 0), (3, 1, 1), (3, 2, 1), (5, 2, 2), (5, 1, 0), (4, 3, 2)]
)
def test_max_pooling_keeps_nan_and_makes_it_the_least_number(
    kernel: int, stride: int, padding: int, isa: str, dot: str, rng: np.random.Generator
) -> None:
    """For one that reads its floats, and for one that reads numbers."""
    b = NetworkBuilder("pool", (3, 16, 33))
    b.pool("pool", "max_pool", kernel, stride, padding)
    alone = b.build()
    b = NetworkBuilder("both", (3, 16, 33))
    pool = b.pool("pool", "max_pool", kernel, stride, padding)
    conv = b.conv("conv", 5, 3, bias=True)
    b.add("both", "concat", pool, conv)
    numbers = Numbers(4 / 255, 117, np.zeros(3))
    file = serialize(Model(b.build(), weights_for(b.build(), rng)), quantization={"conv": numbers})
    image = rng.standard_normal((1, 3, 16, 33), dtype=np.float32)
    image[rng.random(image.shape) < 0.02] = np.nan
    want = reference.run(alone, {}, image[0]).reshape(alone.shapes["pool"]).astype(np.float32)
    assert np.isnan(want).any()
    least = np.where(np.isnan(want), np.float32(-np.inf), want)
    sums = integers(file, least, b.build(), numbers)
    for threads in (1, 3):
        found = poisoned(Program(file, isa=isa, threads=threads), image)
        np.testing.assert_array_equal(found, np.concatenate([want.ravel(), sums.ravel()]))


def changed(file: bytes, entry: dict[str, Any] | None = None, **tensors: Any) -> bytes:
    """The file with other attributes of its last unit, or other tensors; None takes one away."""
    metadata = dict(safetensors_metadata(file))
    program = json.loads(metadata["program"])
    program["units"][-1] |= entry or {}
    kept = {key: value for key, value in (load_tensors(file) | tensors).items() if value is not None}
    metadata = {key: metadata[key] for key in ("precision", "network")} | {"program": json.dumps(program)}
    return save(kept, stated(metadata, kept))


def test_damaged_files_are_named(rng: np.random.Generator) -> None:
    network = conv_network((4, 6, 6), 4, (3, 3))
    numbers = Numbers(0.1, 3, np.zeros(4))
    model = Model(network, weights_for(network, rng))
    file = serialize(model, quantization={"conv": numbers})
    assert Program(changed(file)).outputs == 64
    floats = rng.standard_normal((4, 4, 3, 3)).astype(np.float32)
    for broken, message in (
        (changed(file, {"input_scale": 0}), "input_scale"),
        (changed(file, {"input_scale": 1e-40}), "input_scale"),
        (changed(file, {"input_zero": 256}), "input_zero"),
        (changed(file, {"groups": 2, "out_channels": 4}), "takes no input_scale"),
        (changed(file, **{"conv.scale": None}), "no scale"),
        (changed(file, **{"conv.scale": np.ones(3, np.float32)}), "conv.scale"),
        (changed(file, **{"conv.scale": np.full(4, np.nan, np.float32)}), "conv.scale"),
        (changed(file, **{"conv.weight": floats}), "no int8"),
        (changed(file, **{"conv.weight": np.full((4, 4, 3, 3), -128, np.int8)}), "no int8"),
    ):
        with pytest.raises(FormatError, match=message):
            Program(broken)


def test_one_channel_to_one_is_depthwise(isa: str, dot: str, rng: np.random.Generator) -> None:
    """Kernels of floats once read whole numbers there."""
    check(conv_network((1, 16, 16), 1, (3, 3)), 1.0, rng, isa=isa)


def test_an_engine_takes_dots_always_or_never(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setenv("JCW_DOT", "perhaps")
    network = conv_network((4, 6, 6), 4, (3, 3))
    with pytest.raises(JcwError, match="expected always or never"):
        compile_model(Model(network, weights_for(network, rng)))
