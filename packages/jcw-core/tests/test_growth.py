"""The work on a network grows as the network does: counted in lines that Python runs, as times are no measure."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from jcw_core.errors import NetworkError
from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.shrink import kept_macs, shrink
from jcw_core.space.space import SearchSpace
from jcw_core.space.whole import fixed_layers, unpruned_layers


def chain_of_adds(size: int) -> Network:
    net = NetworkBuilder("adds", (3, 4, 4))
    last = net.conv("conv", 8, 1)
    for index in range(size):
        last = net.add(f"add{index}", "add", last, "conv")
    return net.build()


def chain_of_blocks(size: int) -> Network:
    """Every convolution's axis is tied to all before it."""
    net = NetworkBuilder("blocks", (3, 4, 4))
    last = net.conv("conv", 8, 1)
    for index in range(size):
        last = net.add(f"add{index}", "add", net.conv(f"conv{index}", 8, 1, source=last), last)
    return net.build()


def chain_that_is_tied_from_the_end(size: int) -> Network:
    net = NetworkBuilder("backwards", (3, 4, 4))
    convs = [net.conv(f"conv{index}", 8, 1, source="input") for index in range(size)]
    for index in reversed(range(size - 1)):
        net.add(f"add{index}", "add", convs[index], convs[index + 1])
    return net.build()


def many_groups(size: int) -> Network:
    net = NetworkBuilder("groups", (3, 4, 4))
    for index in range(size):
        net.conv(f"conv{index}", 8, 3)
        net.batch_norm(f"bn{index}")
        net.add(f"relu{index}", "relu")
        net.depthwise(f"dw{index}", 3)
    return net.build()


def many_readers(size: int) -> Network:
    net = NetworkBuilder("readers", (3, 4, 4))
    net.conv("conv", 8, 1)
    ends = [net.add(f"relu{index}", "relu", "conv") for index in range(size)]
    net.add("join", "concat", *ends)
    return net.build()


def flat_chain(size: int) -> Network:
    net = NetworkBuilder("flat", (3, 4, 4))
    net.add("flatten", "flatten")
    for index in range(size):
        net.linear(f"fc{index}", 8)
        net.batch_norm(f"bn{index}")
    return net.build()


def problems(network: Network) -> list[Any]:
    return [problem_of(network, layer) for layer in fuse(network)]


def look_up_what_an_equal_network_has(network: Network) -> None:
    """Once per layer, as those who go through the layers do."""
    again = Network(network.name, network.nodes)
    fuse(network), couple(network)
    for _ in network:
        fuse(again), couple(again)


WORK: list[Callable[[Network], Any]] = [
    lambda network: Network.from_json(network.to_json()),
    couple,
    fuse,
    problems,
    SearchSpace.of,
    fixed_layers,
    unpruned_layers,
    look_up_what_an_equal_network_has,
    lambda network: shrink(network, Architecture({}, {})),
    lambda network: kept_macs(network, Architecture({}, {})),
    lambda network: (network.parameters, network.macs, network.consumers, network.num_classes),
]
NETWORKS = [
    chain_of_adds, chain_of_blocks, chain_that_is_tied_from_the_end, many_groups, many_readers, flat_chain,
]  # fmt: skip


def lines_run(work: Callable[[], Any]) -> int:
    """How many lines Python runs; a comprehension counts each time it goes round."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("make", NETWORKS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("work", WORK, ids=range(len(WORK)))
def test_twice_the_network_is_twice_the_work(
    make: Callable[[int], Network], work: Callable[[Network], Any]
) -> None:
    small, large = (lines_run(partial(work, make(size))) for size in (100, 200))
    assert large <= 2.2 * small


@pytest.mark.parametrize("times", [12, 25])
def test_concatenations_of_concatenations_are_refused_before_they_fill_the_memory(times: int) -> None:
    net = NetworkBuilder("doubled", (1, 2, 2))
    net.conv("conv", 1, 1)
    for index in range(times):
        net.add(f"join{index}", "concat", net.last, net.last)
    if times <= 24:
        assert len(couple(net.build()).layout["output"]) == 2**times
        return
    with pytest.raises(NetworkError, match=r"'join24' \(concat\): makes .*, more than 16777216"):
        net.build()


def test_many_pieces_are_refused_by_name() -> None:
    net = NetworkBuilder("long", (1, 1, 1))
    last = net.conv("conv", 1, 1)
    for index in range(1500):
        last = net.add(f"join{index}", "concat", last, "conv")
    with pytest.raises(NetworkError, match=r"long: node 'join\d+' \(concat\): more than 1048576 runs"):
        couple(net.build())
