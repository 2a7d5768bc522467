"""Every operation on flat vectors, through everything that is made of a network."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from core_networks import flat_tails, image_of, random_weights, run
from hypothesis import given, settings
from hypothesis import strategies as st

from jcw_core.errors import NetworkError
from jcw_core.formats.onnx_reader import read_onnx
from jcw_core.formats.onnx_writer import OnnxExporter, to_onnx
from jcw_core.network.architecture import Architecture
from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network, Node
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.model import Model
from jcw_core.network.operations import OPERATIONS
from jcw_core.network.problem import LayerProblem
from jcw_core.network.problem_text import describe
from jcw_core.network.shrink import shrink, shrink_weights
from jcw_core.space.space import SearchSpace
from jcw_core.training.execution import BatchNorm, execute
from jcw_core.training.module import Slimmable
from jcw_latency.table.axes import full_size, layer_at, layer_axes, layer_coordinates

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=60)
@given(flat_tails(), SEEDS)
def test_torch_computes_cut_what_it_computes_masked(network: Network, seed: int) -> None:
    """In float64, against the reference, whole and cut; the sub-network of a slimmable one is the cut one."""
    rng = np.random.default_rng(seed)
    weights, image = random_weights(network, rng), image_of(network, rng)
    module = Slimmable(network, rng).double()
    module.load_weights(weights)
    space = SearchSpace.of(network, step=1)
    architecture = Architecture(space.architecture(space.sample(1, rng)[0]).widths, {})
    small, cut = shrink(network, architecture), shrink_weights(network, architecture, weights)
    images = torch.from_numpy(image)[None]
    statistics = {name: torch.from_numpy(cut[name]).double() for name in small.buffer_shapes}
    with torch.no_grad():
        whole = module.eval()(images)[0].numpy()
        found = execute(network, module.subnetwork(architecture), images, BatchNorm(statistics))[0].numpy()
    np.testing.assert_allclose(whole, run(network, weights, image)["output"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found, run(small, cut, image)["output"], rtol=1e-9, atol=1e-9)
    masks, coupling = {}, couple(network)
    for node in network:
        masks[node.name] = np.zeros(network.shapes[node.name][0])
        masks[node.name][coupling.kept(node.name, architecture.widths)] = 1
    masked = run(network, weights, image, masks)["output"][coupling.kept("output", architecture.widths)]
    np.testing.assert_allclose(found, masked, rtol=1e-9, atol=1e-9)


@settings(max_examples=60)
@given(flat_tails(), SEEDS)
def test_training_works(network: Network, seed: int) -> None:
    rng = np.random.default_rng(seed)
    module = Slimmable(network, rng).train()
    images = torch.from_numpy(rng.normal(size=(4, *network.input_shape)).astype("f4"))
    module(images).square().sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in module.parameters())


@settings(max_examples=60)
@given(flat_tails(), SEEDS)
def test_onnx_files_compute_the_same(tmp_path: Path, network: Network, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, image = random_weights(network, rng), image_of(network, rng)
    model = Model(network, weights)
    session = onnxruntime.InferenceSession(
        to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    got = session.run(["output"], {"input": image[None].astype("f4")})[0][0]
    want = run(network, weights, image)["output"]
    scale = max(np.abs(values).max() for values in run(network, weights, image).values())
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * scale)
    OnnxExporter().export(model, tmp_path / "flat.onnx")
    read = read_onnx(tmp_path / "flat.onnx")
    again = run(read, {name: weights[name] for name in read.parameter_shapes | read.buffer_shapes}, image)
    np.testing.assert_allclose(again["output"], want, rtol=1e-4, atol=1e-6 * scale)


@settings(max_examples=60)
@given(flat_tails(), SEEDS)
def test_a_device_is_asked_about_layers_that_exist(network: Network, seed: int) -> None:
    """At full width, cut, and at every end of the axes of its latency grid."""
    rng = np.random.default_rng(seed)
    space = SearchSpace.of(network, step=1)
    small = shrink(network, space.architecture(space.sample(1, rng)[0]))
    places = layer_coordinates(space)
    for layer in fuse(network):
        problem = problem_of(network, layer)
        assert LayerProblem.from_dict(asdict(problem)) == problem
        assert describe(problem).startswith(problem.op)
        cut = problem_of(small, layer)
        axes = layer_axes(network, layer, problem)
        assert layer_at(problem, {axis: full_size(problem, axis) for axis in axes}) == problem
        assert layer_at(problem, dict.fromkeys(axes, 1)).in_channels <= problem.in_channels
        columns = space.row(space.architecture(space.low))[:, None]
        for axis in axes:
            assert 0 < places[layer.name][axis].of(columns)[0] <= full_size(problem, axis)
        assert cut.in_height == cut.in_width == 1 or layer.node.op in ("conv2d", "global_avg_pool", "flatten")


CONVOLUTION = {
    "out_channels": 4, "kernel_size": (1, 1), "stride": (1, 1), "padding": (0, 0), "groups": 1, "bias": True
}  # fmt: skip
ATTRIBUTES = {
    "conv2d": CONVOLUTION,
    "conv_transpose2d": CONVOLUTION,
    "linear": {"out_features": 3, "bias": True},
    "batch_norm": {"eps": 1e-5},
    "max_pool": {"kernel_size": (1, 1), "stride": (1, 1), "padding": (0, 0)},
    "avg_pool": {"kernel_size": (1, 1), "stride": (1, 1), "padding": (0, 0)},
    "clip": {"low": -1.0, "high": 0.5},
    "leaky_relu": {"slope": 0.2},
    "elu": {"alpha": 0.5},
    "slice": {"start": 0, "stop": 1},
    "channel_shuffle": {"groups": 1},
    "pixel_shuffle": {"factor": 1},
    "resize_nearest": {"scale": (2, 1)},
    "resize_bilinear": {"scale": (1, 2)},
}  # fmt: skip


def made_of(nodes: tuple[Node, ...]) -> Network | str:
    """The network, or why there is none."""
    try:
        return Network("net", nodes)
    except NetworkError as error:
        return str(error)


@pytest.mark.parametrize("shape", [(4,), (4, 1, 1), (4, 2, 3), (4, 2), (1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("op", sorted(OPERATIONS.keys() - {"input", "output"}))
def test_a_network_that_exists_is_consistent(op: str, shape: tuple[int, ...]) -> None:
    """Each operation on each number of axes: refused by name when the network is made, or good for everything."""
    nodes = (
        Node("input", "input", (), {"shape": shape}),
        Node("node", op, ("input",) * (OPERATIONS[op].arity or 2), ATTRIBUTES.get(op, {})),
        Node("output", "output", ("node",)),
    )
    network = made_of(nodes)
    if isinstance(network, str):
        assert "node 'node'" in network or len(shape) not in (1, 3)
        return
    assert network.macs >= 0
    weights = random_weights(network, np.random.default_rng(0))
    assert set(couple(network).layout) == {"input", "node", "output"}
    (layer,) = fuse(network)
    problem_of(network, layer)
    images = torch.zeros(2, *shape, dtype=torch.float64)
    tensors = {name: torch.from_numpy(array).double() for name, array in weights.items()}
    found = execute(network, tensors, images, BatchNorm(tensors))
    assert found.shape == (2, network.num_classes)
    to_onnx(Model(network, weights))


@pytest.mark.parametrize("first", [(4,), (4, 1, 1), (4, 2, 2)], ids=str)
@pytest.mark.parametrize("second", [(4,), (4, 1, 1), (4, 2, 2)], ids=str)
@pytest.mark.parametrize("op", ["add", "mul", "concat"])
def test_shapes_that_are_joined_are_those_that_torch_joins(
    op: str, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    """What a network of two values says of their shape is the shape that torch makes."""
    shapes = [first, second]
    one, other = (torch.ones(2, *shape) for shape in shapes)
    try:
        expected = OPERATIONS[op].shape({}, shapes)
    except NetworkError:
        return
    joined = torch.cat([one, other], 1) if op == "concat" else one + other if op == "add" else one * other
    assert joined.shape[1:] == expected
