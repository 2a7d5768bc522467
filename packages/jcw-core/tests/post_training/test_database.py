"""Weights of any architecture from one pass over calibration images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from core_networks import small_resnet
from supernet_samples import BUILDERS
from torch import Tensor

from jcw_core.errors import ArchitectureError, FormatError
from jcw_core.network.architecture import Architecture
from jcw_core.network.channel_groups import couple
from jcw_core.network.channel_order import permute_channels
from jcw_core.network.graph import Network
from jcw_core.network.node import Node
from jcw_core.network.shrink import shrink
from jcw_core.post_training.database import Database, build
from jcw_core.post_training.importance import by_importance, channel_saliency
from jcw_core.post_training.statistics import gram_matrices
from jcw_core.space.space import SearchSpace, prunable_layers
from jcw_core.space.whole import with_pruned_first
from jcw_core.training import checkpoint
from jcw_core.training.execution import BatchNorm, execute

NETWORKS = {
    **BUILDERS,
    "small_resnet": small_resnet,
    "pruned first": lambda: with_pruned_first(small_resnet()),
}


def weights_of(network: Network, rng: np.random.Generator) -> dict[str, Tensor]:
    """Random parameters and statistics."""
    shapes = {**network.parameter_shapes, **network.buffer_shapes}
    drawn = {name: rng.normal(0.1, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    drawn |= {name: np.abs(drawn[name]) + 0.5 for name in drawn if name.endswith("running_var")}
    return {name: torch.from_numpy(array) for name, array in drawn.items()}


def outputs(network: Network, tensors: dict[str, Tensor], images: Tensor) -> Tensor:
    statistics = {name: tensors[name] for name in network.buffer_shapes}
    return execute(network, tensors, images, BatchNorm(statistics))


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> Network:
    return NETWORKS[request.param]()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def images(network: Network, rng: np.random.Generator) -> list[Tensor]:
    shape = (16, *network.input_shape)
    return [torch.from_numpy(rng.normal(size=shape).astype(np.float32)) for _ in range(3)]


def test_channels_in_another_order_compute_the_same(network: Network, rng: np.random.Generator) -> None:
    tensors = weights_of(network, rng)
    groups = [g for g in couple(network).groups.values() if not g.fixed]
    orders = {g.name: rng.permutation(g.channels) for g in groups}
    permuted = permute_channels(network, {n: t.double().numpy() for n, t in tensors.items()}, orders)
    images = torch.from_numpy(rng.normal(size=(4, *network.input_shape)))
    before = outputs(network, {n: t.double() for n, t in tensors.items()}, images)
    after = outputs(network, {n: torch.from_numpy(a) for n, a in permuted.items()}, images)
    torch.testing.assert_close(after, before, rtol=1e-9, atol=1e-9)
    moved = any(not np.array_equal(permuted[name], tensors[name].numpy()) for name in tensors)
    assert moved == bool(groups)


def test_an_order_that_is_no_permutation_is_refused(rng: np.random.Generator) -> None:
    network = small_resnet()
    weights = {n: t.numpy() for n, t in weights_of(network, rng).items()}
    for orders in ({"stem": np.arange(3)}, {"nothing": np.arange(3)}, {"fc": np.arange(3)[::-1]}):
        with pytest.raises(ArchitectureError, match=next(iter(orders))):
            permute_channels(network, weights, orders)


def test_gram_matrices_are_those_of_the_inputs(
    network: Network, rng: np.random.Generator, images: list[Tensor]
) -> None:
    """A layer's outputs without its bias have the energy w H w: the check needs no patches of its own."""
    tensors = weights_of(network, rng)
    tensors |= {n: torch.zeros_like(t) for n, t in tensors.items() if n in biases(network)}
    norm = BatchNorm({name: tensors[name] for name in network.buffer_shapes})
    found = gram_matrices(network, tensors, norm, images)
    assert found.keys() == set(prunable_layers(network))
    energy = dict.fromkeys(found, 0.0)

    def add(node: Node, value: Tensor) -> None:
        if node.name in energy:
            energy[node.name] += float(value.double().square().sum())

    for batch in images:
        execute(network, tensors, batch, norm, add)
    for layer, gram in found.items():
        rows = tensors[f"{layer}.weight"].flatten(1).double()
        assert float(((rows @ gram.double()) * rows).sum()) == pytest.approx(energy[layer] / 48, rel=1e-3)


def biases(network: Network) -> set[str]:
    """Names of the biases of convolutions and linear layers."""
    return {f"{node.name}.bias" for node in network if node.op in ("conv2d", "linear")}


@pytest.fixture
def database(network: Network, rng: np.random.Generator, images: list[Tensor]) -> Database:
    return build(network, weights_of(network, np.random.default_rng(7)), images)


def test_the_whole_network_computes_what_the_dense_one_does(
    network: Network, rng: np.random.Generator, images: list[Tensor], database: Database
) -> None:
    tensors = weights_of(network, np.random.default_rng(7))
    whole = {**database.tensors, **database.weights(Architecture({}, {}))}
    torch.testing.assert_close(
        outputs(network, whole, images[0]), outputs(network, tensors, images[0]), rtol=1e-3, atol=1e-3
    )


def test_an_architecture_has_its_shapes_and_its_densities(
    network: Network, rng: np.random.Generator, database: Database
) -> None:
    space = SearchSpace.of(network)
    for row in space.sample(5, rng):
        architecture = space.architecture(row)
        small = shrink(network, architecture)
        found = database.weights(architecture)
        assert {name: tuple(t.shape) for name, t in found.items()} == dict(small.parameter_shapes)
        for layer in prunable_layers(network):
            flat = found[f"{layer}.weight"].flatten(1)
            missing = -len(flat) % 4
            groups = torch.cat([flat, flat.new_zeros(missing, flat.shape[1])]).view(-1, 4, flat.shape[1])
            kept = int(groups.abs().amax(1).count_nonzero())
            assert kept <= round(architecture.densities.get(layer, 1.0) * groups[:, 0].numel() + 0.5)


def test_what_is_cut_is_made_up_for(images: list[Tensor]) -> None:
    """Half of the channels carry nothing new: cutting them loses nothing once the rest is refitted."""
    network = small_resnet()
    tensors = weights_of(network, np.random.default_rng(3))
    for key in ("weight",):
        half = tensors[f"block.conv1.{key}"][:8]
        tensors[f"block.conv1.{key}"] = torch.cat([half, 2 * half])
    made = build(network, tensors, [torch.randn(16, 3, 8, 8) for _ in range(4)])
    cut = Architecture({"block.conv1": 8}, {})
    batch = torch.randn(8, 3, 8, 8)
    whole = {**made.tensors, **made.weights(Architecture({}, {}))}
    fitted = {**made.tensors, **made.weights(cut)}
    plain = {**fitted, "block.conv2.weight": made.tensors["block.conv2.weight"][:, :8]}
    dense = outputs(network, whole, batch)
    lost = (outputs(network, fitted, batch) - dense).norm() / dense.norm()
    unfitted = (outputs(network, plain, batch) - dense).norm() / dense.norm()
    assert lost < 0.2 * unfitted


def test_saliency_is_zero_for_channels_that_are_read_with_zeros() -> None:
    network = small_resnet()
    tensors = weights_of(network, np.random.default_rng(1))
    tensors["block.conv2.weight"][:, [2, 5, 11]] = 0
    norm = BatchNorm({name: tensors[name] for name in network.buffer_shapes})
    grams = gram_matrices(network, tensors, norm, [torch.randn(16, 3, 8, 8)])
    saliency = channel_saliency(network, tensors, grams)
    assert set(np.flatnonzero(saliency["block.conv1"] == 0)) == {2, 5, 11}
    assert set(by_importance(network, saliency)["block.conv1"][-3:]) == {2, 5, 11}


def test_a_database_is_read_as_it_was_written(network: Network, database: Database, tmp_path: Path) -> None:
    path = tmp_path / "database.safetensors"
    database.save(path)
    read = Database.load(path, network)
    architecture = SearchSpace.of(network).architecture(SearchSpace.of(network).low)
    for name, tensor in database.weights(architecture).items():
        assert torch.equal(read.weights(architecture)[name], tensor)


def test_files_that_are_no_databases_are_refused(tmp_path: Path) -> None:
    network = small_resnet()
    images = [torch.randn(4, 3, 8, 8)]
    path = tmp_path / "database.safetensors"
    build(network, weights_of(network, np.random.default_rng(0)), images).save(path)
    with pytest.raises(FormatError, match="another network"):
        Database.load(path, small_resnet(width=12))
    tensors, note = checkpoint.load(path)
    checkpoint.save(path, {n: t for n, t in tensors.items() if n != "loss.fc"}, note)
    with pytest.raises(FormatError, match="lacks a part"):
        Database.load(path, network)
    checkpoint.save(path, tensors, {})
    with pytest.raises(FormatError, match="format is None"):
        Database.load(path, network)


def test_layers_that_were_ended_are_not_done_again(tmp_path: Path, rng: np.random.Generator) -> None:
    network = small_resnet()
    tensors, images = weights_of(network, rng), [torch.randn(16, *network.input_shape)]
    told: list[str] = []

    def report(done: int, total: int, layer: str) -> None:
        told.append(layer)
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(network, tensors, images, report=report, scratch=tmp_path)
    kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(kept) == len(told) == 3
    whole, again = build(network, tensors, images), build(network, tensors, images, scratch=tmp_path)
    assert kept.items() <= {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}.items()
    for layer, removal in whole.removals.items():
        assert torch.equal(again.removals[layer].order, removal.order)
        assert torch.equal(again.removals[layer].loss, removal.loss)
    first = min(tmp_path.iterdir())
    checkpoint.save(first, {"order": torch.ones(1, 2), "loss": torch.ones(1, 2)}, {})
    for content in (first.read_bytes(), b""):
        first.write_bytes(content)
        with pytest.raises(FormatError, match=first.name):
            build(network, tensors, images, scratch=tmp_path)
