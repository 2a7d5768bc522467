"""Distances between outputs, against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.outputs import makes_logits
from jcw_core.supernet.distance import distance


def logits(net: NetworkBuilder) -> str:
    net.add("pool", "global_avg_pool")
    net.add("flat", "flatten")
    return net.linear("fc", 5)


def probabilities(net: NetworkBuilder) -> str:
    logits(net)
    return net.add("softmax", "softmax")


def pixels_of_one_class(net: NetworkBuilder) -> str:
    return net.conv("map", 5, 3)


def several(net: NetworkBuilder) -> str:
    one = net.add("one", "flatten", net.conv("a", 2, 1, source="input"))
    return net.add("both", "concat", one, net.add("other", "flatten", net.conv("b", 1, 1, source="input")))


def gates(net: NetworkBuilder) -> str:
    logits(net)
    return net.add("gate", "sigmoid")


def made(build: Callable[[NetworkBuilder], str]) -> Network:
    net = NetworkBuilder("net", (3, 4, 4))
    return net.build(output=build(net))


def outputs(network: Network, seed: int) -> list[torch.Tensor]:
    """Two batches of random outputs, of seven images."""
    rng = np.random.default_rng(seed)
    values = torch.from_numpy(rng.normal(0, 2, (7, network.num_classes)).astype(np.float32))
    if network[network.output.inputs[0]].op == "softmax":
        values = torch.softmax(values, 1)
    return [values[:4], values[4:]]


@pytest.mark.parametrize("build", [logits, probabilities])
def test_classes_are_compared_by_their_probabilities(build: Callable[[NetworkBuilder], str]) -> None:
    network = made(build)
    assert makes_logits(network)
    dense, found = outputs(network, 0), outputs(network, 1)
    p, q = (torch.cat(values).double().numpy() for values in (dense, found))
    if build is logits:
        p, q = (np.exp(values) / np.exp(values).sum(1, keepdims=True) for values in (p, q))
    expected = (p * np.log(p / q)).sum(1).mean()
    assert distance(network, dense, found) == pytest.approx(expected, rel=1e-5)
    assert distance(network, dense, dense) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("build", [pixels_of_one_class, several, gates])
def test_all_else_is_compared_by_its_squares(build: Callable[[NetworkBuilder], str]) -> None:
    network = made(build)
    assert not makes_logits(network)
    dense, found = outputs(network, 0), outputs(network, 1)
    wanted, other = (torch.cat(values).double().numpy() for values in (dense, found))
    expected = np.square(wanted - other).sum() / np.square(wanted).sum()
    assert distance(network, dense, found) == pytest.approx(expected, rel=1e-9)
    assert distance(network, dense, dense) == 0
