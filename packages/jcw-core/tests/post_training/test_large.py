"""Layers that are too large for the surgeon are pruned by what each input carries alone, and memory that ends is told of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from core_networks import small_resnet
from post_training_samples import random_images, random_tensors
from torch import Tensor

from jcw_core.errors import JcwError, within_memory
from jcw_core.formats import weights_file
from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.weight_groups import kept_groups
from jcw_core.post_training import database as databases
from jcw_core.post_training import importance, removal, statistics
from jcw_core.post_training import refit as fitting
from jcw_core.post_training.criteria import OBS
from jcw_core.post_training.database import Database, build
from jcw_core.post_training.removal import grouped_rows
from jcw_core.training.execution import BatchNorm

INPUTS = 65_536


def head_of_many_inputs() -> Network:
    """One linear layer whose Gram matrix would have 17 GB."""
    net = NetworkBuilder("net", (16, 64, 64))
    net.add("flat", "flatten")
    net.add("fc", "linear", out_features=6, bias=True)
    return net.build()


def grams_of(network: Network, tensors: dict[str, Tensor], images: Tensor) -> dict[str, Tensor]:
    norm = BatchNorm({name: tensors[name] for name in network.buffer_shapes})
    return statistics.gram_matrices(network, tensors, norm, [images])


def test_a_layer_of_65536_inputs_keeps_what_carries_most() -> None:
    network = head_of_many_inputs()
    tensors, images = random_tensors(network, 1), random_images(network, 2)
    told: list[str] = []
    made = build(network, tensors, [images], report=lambda done, total, layer: told.append(layer))
    assert told == ["fc (cheaper mask)"]
    assert made.grams["fc"].shape == (INPUTS,)
    pruned = made.weights(Architecture({}, {"fc": 0.25}))["fc.weight"]
    dense, kept = tensors["fc.weight"], grouped_rows(pruned).abs().sum(1) > 0
    assert int(kept.sum()) == kept_groups(0.25, 2 * INPUTS)
    assert torch.equal(pruned[pruned != 0], dense[pruned != 0])
    energy = grouped_rows(dense).square().sum(1) * images.flatten(1).square().mean(0)
    assert energy[kept].min() >= energy[~kept].max() * (1 - 1e-5)


@pytest.mark.parametrize("setting", [{"_MOST_INPUTS": 100}, {"_MOST_WORK": 4e6}])
def test_large_layers_are_known_by_their_diagonals(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, setting: dict[str, float]
) -> None:
    network = small_resnet()
    tensors, images = random_tensors(network, 1), random_images(network, 16)
    whole = grams_of(network, tensors, images)
    for name, value in setting.items():
        monkeypatch.setattr(removal, name, value)
    found = grams_of(network, tensors, images)
    large = {layer for layer, gram in found.items() if gram.ndim == 1}
    assert large
    assert large < found.keys()
    for layer, gram in found.items():
        wanted = whole[layer].diagonal() if layer in large else whole[layer]
        torch.testing.assert_close(gram, wanted, rtol=1e-4, atol=1e-4)
    made = build(network, tensors, [images], OBS, rearrange=True)
    made.save(tmp_path / "database.safetensors")
    read = Database.load(tmp_path / "database.safetensors", network)
    architecture = Architecture({}, dict.fromkeys(found, 0.5))
    weights = read.weights(architecture)
    for layer in found:
        pruned, dense = weights[f"{layer}.weight"], made.tensors[f"{layer}.weight"]
        assert torch.equal(weights[f"{layer}.weight"], made.weights(architecture)[f"{layer}.weight"])
        assert torch.equal(pruned[pruned != 0], dense[pruned != 0]) == (layer in large)


def test_statistics_do_not_depend_on_how_many_images_fit_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    network = small_resnet()
    tensors, images = random_tensors(network, 1), random_images(network, 5)
    whole = grams_of(network, tensors, images)
    monkeypatch.setattr(statistics, "_BYTES", 1)
    for layer, gram in grams_of(network, tensors, images).items():
        torch.testing.assert_close(gram, whole[layer], rtol=1e-4, atol=1e-4)


def test_the_smallest_are_those_of_a_stable_order() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        values = torch.from_numpy(rng.integers(-2, 3, rng.integers(1, 30)).astype(np.float32))
        values[values == -2] = -torch.inf
        for count in range(len(values) + 1):
            chosen = fitting._smallest(values, count).nonzero()[:, 0]
            assert sorted(values.argsort(stable=True)[:count].tolist()) == chosen.tolist()


@pytest.mark.parametrize(("remembered", "inversions"), [(2**30, 1), (0, 2)])
def test_what_no_architecture_changes_is_inverted_once(
    monkeypatch: pytest.MonkeyPatch, remembered: int, inversions: int
) -> None:
    network = small_resnet()
    made = build(network, random_tensors(network, 1), [random_images(network, 16)])
    inverted: list[int] = []

    def inverse_of(system: Tensor) -> Tensor:
        inverted.append(len(system))
        return torch.linalg.inv(system)

    monkeypatch.setattr(fitting, "inverse_of", inverse_of)
    monkeypatch.setattr(fitting, "_REMEMBERED", remembered)
    architecture = Architecture({}, {"block.conv2": 0.8})
    first, second = made.weights(architecture), made.weights(architecture)
    assert len(inverted) == inversions
    assert torch.equal(first["block.conv2.weight"], second["block.conv2.weight"])


def exhausted(*arguments: object) -> Tensor:
    """What torch raises for more than any machine has."""
    return torch.empty(2**60, dtype=torch.uint8)


@pytest.mark.parametrize("step", ["patches", "_cost", "removal_order", "refit"])
def test_memory_that_ends_is_told_with_the_layer(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    network = small_resnet()
    monkeypatch.setattr({"patches": statistics, "_cost": importance}.get(step, databases), step, exhausted)
    with pytest.raises(JcwError, match=r"layer '[a-z0-9.]+', whose .* memory does not suffice"):
        build(network, random_tensors(network, 1), [random_images(network, 4)]).weights(
            Architecture({}, {"fc": 0.5})
        )


def test_memory_that_ends_is_told_with_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save({"weight": torch.zeros(3)}, path)
    monkeypatch.setattr(torch, "load", exhausted_file)
    with pytest.raises(JcwError, match=r"weights\.pth: memory does not suffice"):
        weights_file.read_weights(path)


def exhausted_file(*arguments: object, **options: object) -> Tensor:
    return exhausted()


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="size"), within_memory("a layer"):
        torch.zeros(2) @ torch.zeros(3)
