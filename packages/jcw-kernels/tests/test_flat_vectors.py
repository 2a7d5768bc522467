"""Networks of flat vectors: whatever ``Network`` takes is computed, and timed by the host and by ``jcw-device``."""

from __future__ import annotations

from pathlib import Path

import kernel_reference as reference
import numpy as np
import pytest
from device_program import answer
from device_program import layer_file as write_layers
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_samples import EPS, check, poisoned, weights_for

from jcw_core.network.graph import Network, Node
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.model import Model
from jcw_core.network.operations import ACTIVATIONS
from jcw_kernels import available_isas, compile_model
from jcw_kernels.host import HostDevice, HostOptions

OPS = ["linear", "batch_norm", "batch_norm", "add", "mul", "concat", "flatten", *sorted(ACTIVATIONS)]


def flat_network(rng: np.random.Generator) -> Network:
    """Up to seven operations on flat vectors, each on any that are there, from planes or from a flat input."""
    shape = (int(rng.integers(1, 9)),) if rng.random() < 0.5 else (int(rng.integers(1, 4)), 2, 3)
    nodes = [Node("input", "input", (), {"shape": shape})]
    if len(shape) == 3:
        nodes.append(Node("flat", "flatten", ("input",)))
    sizes = {nodes[-1].name: int(np.prod(shape))}
    for i in range(rng.integers(1, 8)):
        op, name = str(rng.choice(OPS)), f"n{i}"
        first = str(rng.choice(list(sizes)))
        alike = [other for other, size in sizes.items() if size == sizes[first]]
        inputs, attributes, size = (first,), {}, sizes[first]
        if op in ("add", "mul"):
            inputs = (first, str(rng.choice(alike)))
        elif op == "concat":
            inputs = (first, *(str(other) for other in rng.choice(list(sizes), rng.integers(0, 3))))
            size = sum(sizes[other] for other in inputs)
        elif op == "linear":
            size = int(rng.integers(1, 10))
            attributes = {"out_features": size, "bias": bool(rng.random() < 0.5)}
        elif op == "batch_norm":
            attributes = {"eps": 1e-5}
        nodes.append(Node(name, op, inputs, attributes))
        sizes[name] = size
    return Network("flat", (*nodes, Node("output", "output", (nodes[-1].name,))))


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32 - 1))
def test_flat_networks_compute_what_numpy_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = flat_network(rng)
    arrays = weights_for(network, rng)
    image = rng.standard_normal((1, *network.input_shape), dtype=np.float32)
    want, scale = reference.run(network, arrays, image[0]), reference.largest(network, arrays, image[0])
    for isa in available_isas():
        got = poisoned(compile_model(Model(network, arrays), isa=isa), image)
        assert np.abs(got - want).max() <= 256 * EPS * max(scale, 1.0)


@pytest.mark.parametrize("features", [1, 3, 4, 17, 300])
def test_batch_norm_of_a_flat_vector(features: int, isa: str, rng: np.random.Generator) -> None:
    nodes = [
        Node("input", "input", (), {"shape": (features,)}),
        Node("norm", "batch_norm", ("input",), {"eps": 1e-5}),
        Node("relu", "relu", ("norm",)),
        Node("output", "output", ("relu",)),
    ]
    network = Network("norm", tuple(nodes))
    image = rng.standard_normal((1, features), dtype=np.float32)
    check(network, weights_for(network, rng), image, 1e-5 * 20, isa=isa)


def test_flat_layers_are_timed(program: str, rng: np.random.Generator, tmp_path: Path) -> None:
    networks = [flat_network(rng) for _ in range(60)]
    problems = list(dict.fromkeys(problem_of(n, layer) for n in networks for layer in fuse(n)))
    assert {"batch_norm", "concat", "add", "mul", "linear"} <= {problem.op for problem in problems}
    seconds = HostDevice(HostOptions(layer_ms=0.01)).measure(problems, rounds=1)
    assert (seconds > 0).all()
    _, once = answer(program, "layers", write_layers(tmp_path / "layers", *problems), "--once")
    assert None not in once["seconds"]
    assert len(once["seconds"]) == len(problems)


def test_images_of_a_flat_network_are_rows(rng: np.random.Generator) -> None:
    network = Network(
        "rows",
        (
            Node("input", "input", (), {"shape": (5,)}),
            Node("relu", "relu", ("input",)),
            Node("output", "output", ("relu",)),
        ),
    )
    rows = rng.standard_normal((3, 5), dtype=np.float32)
    program = compile_model(Model(network, {}))
    np.testing.assert_array_equal(program.run(rows), np.maximum(rows, 0))
    np.testing.assert_array_equal(program.run(rows[:, :, None, None]), np.maximum(rows, 0))
