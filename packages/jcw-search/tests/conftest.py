"""A small network, its space, and objectives that cost nothing."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from jcw_core.network.builder import NetworkBuilder
from jcw_core.space.space import Bound, SearchSpace
from jcw_search import Fixed


def build_network(channels=64):
    net = NetworkBuilder("small", (3, 8, 8))
    net.conv("conv1", channels, 3)
    net.add("relu1", "relu")
    net.conv("conv2", 2 * channels, 3, 2)
    net.add("relu2", "relu")
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", 10)
    return net.build()


def latency_of(space, population):
    """Kept multiply-accumulates of each layer plus the cost of moving its channels."""
    one = space.channels(population, "conv1")
    two = space.channels(population, "conv2")
    work = 9 * one * two * space.density(population, "conv2") + 10 * two * space.density(population, "fc")
    return (work + 27 * one + 5 * (one + two)) / 1000


def error_of(space, population):
    """Falls with capacity, by layer at different rates, so that the front is curved."""
    share = space.encode(population)
    weight = np.linspace(1, 2, space.dimensions)
    return 0.1 + 0.8 * np.exp(-3 * (share * weight).sum(axis=1) / weight.sum())


def tiny_space(channels, width=0.5, density=0.98):
    """Few enough architectures to try them all."""
    bounds = [Bound("fc", width=1, density=density - 0.01), Bound("*", width, density)]
    return SearchSpace.of(build_network(channels), bounds)


def values_of(variable):
    """All values that a variable may take: multiples of its step within its bounds, and the bounds."""
    multiples = np.round(np.arange(0, variable.maximum + variable.step, variable.step), 9)
    inside = multiples[(multiples > variable.low) & (multiples < variable.high)]
    return np.unique([variable.low, *inside, variable.high])


def everything(space):
    return np.array(list(product(*map(values_of, space.variables))))


@pytest.fixture
def toy():
    return SimpleNamespace(
        network=build_network,
        latency=latency_of,
        error=error_of,
        tiny=tiny_space,
        values_of=values_of,
        everything=everything,
    )


@pytest.fixture
def space():
    return SearchSpace.of(build_network())


@pytest.fixture
def evaluators():
    return {"latency": Fixed(latency_of), "error": Fixed(error_of)}


@pytest.fixture
def rng():
    return np.random.default_rng(7)
