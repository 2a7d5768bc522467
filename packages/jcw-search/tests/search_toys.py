"""A small network, its space, and objectives that cost nothing."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.space.bounds import Bound
from jcw_core.space.space import Population, SearchSpace, Variable

Floats = NDArray[np.float64]


def network(channels: int = 64) -> Network:
    """Two convolutions and a linear layer."""
    net = NetworkBuilder("small", (3, 8, 8))
    net.conv("conv1", channels, 3)
    net.add("relu1", "relu")
    net.conv("conv2", 2 * channels, 3, 2)
    net.add("relu2", "relu")
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", 10)
    return net.build()


def latency(space: SearchSpace, population: Population) -> Floats:
    """Kept multiply-accumulates of each layer plus the cost of moving its channels."""
    one = space.channels(population, "conv1")
    two = space.channels(population, "conv2")
    work = 9 * one * two * space.density(population, "conv2") + 10 * two * space.density(population, "fc")
    return (work + 27 * one + 5 * (one + two)) / 1000


def error(space: SearchSpace, population: Population) -> Floats:
    """Falls with capacity, by layer at different rates, so that the front is curved."""
    share = space.encode(population)
    weight = np.linspace(1, 2, space.dimensions)
    return np.asarray(0.1 + 0.8 * np.exp(-3 * (share * weight).sum(axis=1) / weight.sum()))


def tiny(channels: int, width: float = 0.5, density: float = 0.98) -> SearchSpace:
    """Few enough architectures to try them all."""
    bounds = [Bound("fc", width=1, density=density - 0.01), Bound("*", width, density)]
    return SearchSpace.of(network(channels), bounds)


def values_of(variable: Variable) -> Floats:
    """All values that a variable may take: multiples of its step within its bounds, and the bounds."""
    multiples = np.round(np.arange(0, variable.maximum + variable.step, variable.step), 9)
    inside = multiples[(multiples > variable.low) & (multiples < variable.high)]
    return np.unique([variable.low, *inside, variable.high])


def everything(space: SearchSpace) -> Population:
    """Every architecture of a tiny space."""
    return np.array(list(product(*map(values_of, space.variables))))
