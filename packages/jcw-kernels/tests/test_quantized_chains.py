"""Whole numbers that a layer writes for the next: bit for bit those that are made of its floats when it stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from kernel_samples import poisoned, weights_for
from numpy.typing import NDArray

from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_kernels import Program
from jcw_kernels.model_file import serialize
from jcw_kernels.quantization import Numbers

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Layer:
    """One layer of a chain, and what is fused into it.

    Args:
        kind: ``conv``, ``depthwise``, ``linear``, ``max_pool`` or ``avg_pool``.
        channels: outputs of a ``conv`` or ``linear``.
        zero: the number that is worth 0.0 where it computes with int8.
        residual: adds the output of the layer before the last, or of the last where that has another shape.
    """

    kind: str
    kernel: int = 3
    stride: int = 1
    channels: int = 8
    activation: str = ""
    zero: int | None = None
    residual: bool = False


def append(net: NetworkBuilder, name: str, layer: Layer, shortcut: str) -> None:
    if layer.kind == "conv":
        net.conv(name, layer.channels, layer.kernel, layer.stride, bias=True)
    elif layer.kind == "linear":
        if len(net.shape(net.last)) > 1:
            net.add(f"{name}/flat", "flatten")
        net.linear(name, layer.channels)
    elif layer.kind == "depthwise":
        net.conv(
            name, net.channels(net.last), layer.kernel, layer.stride, groups=net.channels(net.last), bias=True
        )
    else:
        net.pool(
            name, layer.kind, layer.kernel, layer.stride, layer.kernel // 2 if layer.kind == "max_pool" else 0
        )
    if layer.residual and net.shape(shortcut) == net.shape(name):
        net.add(f"{name}/sum", "add", name, shortcut)
    if layer.activation:
        net.add(f"{name}/act", layer.activation)


@dataclass(frozen=True)
class Chain:
    """Layers on an image, whole and one by one."""

    layers: Sequence[Layer]
    shape: tuple[int, int, int]
    density: float
    seed: int

    def check(self, isa: str, threads: int = 1) -> list[str]:
        """Compare both, and tell which kernels the whole has."""
        rng = np.random.default_rng(self.seed)
        whole = NetworkBuilder("whole", self.shape)
        ends = ["input"]
        for i, layer in enumerate(self.layers):
            append(whole, f"layer{i}", layer, ends[-2] if len(ends) > 1 else ends[-1])
            ends.append(whole.last)
        network = whole.build()
        arrays = weights_for(network, rng, self.density)
        program = self._program(network, arrays, isa, threads)
        image = rng.standard_normal((1, *self.shape), dtype=np.float32)
        values = [image[0]]
        for i in range(len(self.layers)):
            values.append(self._alone(i, values, arrays, isa))
        np.testing.assert_array_equal(poisoned(program, image), values[-1].reshape(-1))
        np.testing.assert_array_equal(program.run(image)[0], values[-1].reshape(-1))
        return [step.kernel for step in program.profile(rounds=1)]

    def _program(self, network: Network, arrays: dict[str, F32], isa: str, threads: int = 1) -> Program:
        numbers = {
            name: Numbers(0.05, zero, np.zeros(network.input_shapes(network[name])[0][0]))
            for name, zero in ((f"layer{i}", layer.zero) for i, layer in enumerate(self.layers))
            if zero is not None and name in network
        }
        own = {key: arrays[key] for key in (*network.parameter_shapes, *network.buffer_shapes)}
        return Program(serialize(Model(network, own), quantization=numbers), isa=isa, threads=threads)

    def _alone(self, i: int, values: Sequence[F32], arrays: dict[str, F32], isa: str) -> F32:
        """The output of layer ``i`` for that of the one before, its sum and activation in numpy."""
        layer, name = self.layers[i], f"layer{i}"
        net = NetworkBuilder("alone", values[-1].shape)
        append(net, name, replace(layer, residual=False, activation=""), "input")
        found = self._program(net.build(), arrays, isa).run(values[-1][None])[0].reshape(net.shape(net.last))
        shortcut = values[-2] if len(values) > 1 else values[-1]
        if layer.residual and shortcut.shape == found.shape:
            found = found + shortcut
        if layer.activation:
            found = np.maximum(found, 0)
        return np.minimum(found, np.float32(6)) if layer.activation == "relu6" else found


WRITERS = {
    "int8": Layer("conv", zero=3),
    "int8, 1 x 1": Layer("conv", 1, zero=3),
    "int8, stride 2": Layer("conv", stride=2, zero=3),
    "int8, ten channels": Layer("conv", 1, channels=10, zero=200),
    "float, 1 x 1": Layer("conv", 1),
    "depthwise": Layer("depthwise"),
    "depthwise, stride 2": Layer("depthwise", stride=2),
    "depthwise of 5": Layer("depthwise", 5),
    "int8, depthwise": Layer("depthwise", zero=3),
    "int8, depthwise of 5": Layer("depthwise", 5, zero=200),
    "int8, depthwise, stride 2": Layer("depthwise", stride=2, zero=0),
    "depthwise of 7": Layer("depthwise", 7),
    "max pool": Layer("max_pool", 3, 2),
    "average": Layer("avg_pool", 2, 2),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("activation", ["", "relu", "relu6"])
@pytest.mark.parametrize("size", [(14, 14), (30, 47)])
def test_nothing_reads_the_floats_between(
    name: str, activation: str, size: tuple[int, int], isa: str, dot: str
) -> None:
    writer = replace(WRITERS[name], activation=activation)
    kernels = Chain([writer, Layer("conv", zero=77)], (8, *size), 0.5, seed=0).check(isa)
    # The image itself has to be made whole numbers.
    assert kernels.count("quantize") == (writer.zero is not None)


@pytest.mark.parametrize("first", [None, 0, 200])
def test_a_sum_reads_them_too(first: int | None, isa: str, dot: str) -> None:
    layers = [
        Layer("conv", 1, zero=first), Layer("conv", zero=10), Layer("conv", residual=True, zero=90),
        Layer("conv", zero=20), Layer("conv", residual=True, zero=130), Layer("conv", 1, zero=0),
    ]  # fmt: skip
    for threads in (1, 3):
        kernels = Chain(layers, (8, 20, 21), 0.5, seed=1).check(isa, threads)
        assert kernels.count("quantize") == (first is not None)


@pytest.mark.parametrize("zero", [None, 0, 200])
@pytest.mark.parametrize("threads", [1, 2])
def test_linear_layers_end_it(zero: int | None, threads: int, isa: str, dot: str) -> None:
    layers = [
        Layer("conv", zero=zero, activation="relu6"), Layer("avg_pool", 2, 2), Layer("linear", channels=21, activation="relu", zero=7),
        Layer("linear", channels=9, zero=zero), Layer("linear", channels=9, zero=130), Layer("linear", channels=9, residual=True, zero=60),
    ]  # fmt: skip
    kernels = Chain(layers, (5, 9, 10), 0.5, seed=2).check(isa, threads)
    assert kernels.count("int8 linear") == (3 if zero is None else 4)


@pytest.mark.parametrize("seed", range(40))
def test_random_chains(seed: int, isa: str, dot: str) -> None:
    rng = np.random.default_rng(seed)
    layers = []
    for _ in range(int(rng.integers(2, 7))):
        kind = str(rng.choice(["conv", "conv", "conv", "depthwise", "max_pool"]))
        zero = int(rng.integers(0, 256)) if kind != "max_pool" and rng.random() < 0.8 else None
        kernel = int(rng.choice([1, 3, 5])) if zero is not None else 1 if kind == "conv" else 3
        layers.append(
            Layer(
                kind, kernel, int(rng.integers(1, 3)) if kind != "conv" or zero is not None else 1,
                int(rng.choice([8, 12, 21])), str(rng.choice(["", "relu", "relu6"])), zero, bool(rng.random() < 0.4),
            )
        )  # fmt: skip
    shape = (int(rng.integers(3, 40)), int(rng.integers(24, 60)), int(rng.integers(24, 60)))
    Chain(layers, shape, float(rng.uniform(0.1, 1)), seed).check(isa, int(rng.integers(1, 4)))


def test_other_activations_are_applied_to_floats(isa: str, dot: str, rng: np.random.Generator) -> None:
    net = NetworkBuilder("net", (8, 12, 12))
    net.conv("a", 8, 3, bias=True)
    net.add("act", "hardswish")
    net.conv("b", 8, 3, bias=True)
    network = net.build()
    numbers = {name: Numbers(0.05, 20, np.zeros(8)) for name in ("a", "b")}
    program = Program(serialize(Model(network, weights_for(network, rng)), quantization=numbers), isa=isa)
    assert [step.kernel for step in program.profile(rounds=1)].count("quantize") == 2
