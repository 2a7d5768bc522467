"""Rows that want the same inputs share weight groups; the order stays near what it was, and outputs stay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from post_training_samples import NETWORKS, outputs, random_images, random_tensors

from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.post_training.database import build
from jcw_core.post_training.rearrangement import STRETCH, arranged, rearranged
from jcw_core.space.space import SearchSpace


@pytest.mark.parametrize("network", [build() for build in NETWORKS.values()], ids=NETWORKS)
def test_outputs_stay_when_rows_are_rearranged(network: Network) -> None:
    tensors, images = random_tensors(network, 1), random_images(network, 20)
    made = build(network, tensors, [images], rearrange=True)
    whole = {**made.tensors, **made.weights(Architecture({}, {}))}
    torch.testing.assert_close(
        outputs(network, whole, images), outputs(network, tensors, images), rtol=1e-4, atol=1e-4
    )
    space = SearchSpace.of(network)
    for row in space.sample(3, np.random.default_rng(0)):
        made.weights(space.architecture(row))


@pytest.mark.parametrize("channels", [1, 3, 4, 7, STRETCH, STRETCH + 1, 3 * STRETCH - 2])
def test_channels_stay_in_their_stretch(channels: int) -> None:
    rng = np.random.default_rng(channels)
    order = rng.permutation(channels)
    found = arranged(rng.random((channels, 9)), order)
    assert sorted(found) == list(range(channels))
    for start in range(0, channels, STRETCH):
        assert set(found[start : start + STRETCH]) == set(order[start : start + STRETCH])
        assert found[start] == order[start], "the most important one stays first"


def test_rows_that_want_the_same_inputs_come_together() -> None:
    rng = np.random.default_rng(0)
    families = rng.permutation(np.repeat(np.arange(8), 4))
    wanted = np.where(families[:, None] == np.arange(64) // 8, rng.uniform(0.5, 1, (32, 64)), 0.0)
    found = families[arranged(wanted, np.arange(32))].reshape(-1, 4)
    assert (found == found[:, :1]).all()


def layer(seed: int) -> tuple[Network, dict[str, torch.Tensor]]:
    """A layer of 16 rows in four families, each of which reads its own quarter of the inputs."""
    net = NetworkBuilder("families", (3, 6, 6))
    net.conv("first", 16, 3)
    net.conv("middle", 16, 1)
    net.conv("last", 4, 1)
    network, rng = net.build(), np.random.default_rng(seed)
    tensors = random_tensors(network, seed)
    families = rng.permutation(np.repeat(np.arange(4), 4))
    mask = torch.from_numpy(families[:, None] == np.arange(16) // 4)
    tensors["middle.weight"] *= mask[:, :, None, None]
    return network, tensors


def test_less_is_lost_at_a_density_when_rows_are_rearranged() -> None:
    lost = {}
    for rearrange in (False, True):
        errors = []
        for seed in range(3):
            network, tensors = layer(seed)
            images = random_images(network, 16)
            made = build(network, tensors, [images], rearrange=rearrange)
            pruned = {**made.tensors, **made.weights(Architecture({}, {"middle": 0.25}))}
            dense = outputs(network, tensors, images)
            errors.append(float((outputs(network, pruned, images) - dense).norm() / dense.norm()))
        lost[rearrange] = np.mean(errors)
    assert lost[True] < 1e-3 < 0.1 < lost[False]


def test_groups_that_nothing_prunes_keep_their_order() -> None:
    network, tensors = layer(0)
    order = {"first": np.arange(16)[::-1].copy()}
    assert rearranged(network, tensors, {}, order)["first"].tolist() == list(range(15, -1, -1))
