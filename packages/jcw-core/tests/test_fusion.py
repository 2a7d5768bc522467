"""Units: they cover the network, can be executed in order, and compute the same."""

from __future__ import annotations

import numpy as np
import pytest
from core_networks import networks, small_resnet
from hypothesis import given, settings

from jcw_core.backbones.mobilenet_v1 import mobilenet_v1
from jcw_core.backbones.mobilenet_v2 import mobilenet_v2
from jcw_core.backbones.resnet import resnet18
from jcw_core.fusion import Unit, fuse, problem_of
from jcw_core.network import Network
from jcw_core.network_builder import NetworkBuilder
from jcw_core.problem import LayerProblem

BACKBONES = [resnet18, mobilenet_v1, mobilenet_v2]


def _terms(network: Network) -> dict[str, object]:
    """What each node computes, as a nested tuple; sums do not depend on the order of their inputs."""
    terms: dict[str, object] = {}
    for node in network:
        inputs = [terms[name] for name in node.inputs]
        terms[node.name] = _sum(*inputs) if node.op == "add" else (node.op, _own(node), *inputs)
    return terms


def _own(node) -> object:
    return node.name if node.op not in ("relu", "relu6") else None


def _sum(first: object, second: object) -> object:
    return (
        ("add", frozenset([(first, 1), (second, 2)]))
        if first == second
        else ("add", frozenset([first, second]))
    )


def _run_units(network: Network, units: tuple[Unit, ...]) -> dict[str, object]:
    values: dict[str, object] = {network.input.name: _terms(network)[network.input.name]}
    for unit in units:
        term = (unit.node.op, _own(unit.node), *(values[name] for name in unit.inputs))
        if unit.node.op == "add":
            term = _sum(*(values[name] for name in unit.inputs))
        if unit.batch_norm is not None:
            term = ("batch_norm", unit.batch_norm.name, term)
        if unit.residual is not None:
            term = _sum(term, values[unit.residual])
        if unit.activation:
            node = network[unit.output]
            term = (unit.activation, _own(node), term)
        assert unit.output not in values
        values[unit.output] = term
    return values


def _check(network: Network) -> None:
    units = fuse(network)
    values, terms = _run_units(network, units), _terms(network)
    assert all(terms[name] == value for name, value in values.items())
    # Whatever is read outside its unit is some unit's output.
    assert network.output.inputs[0] in values
    covered = sum(
        1 + (unit.batch_norm is not None) + (unit.residual is not None) + bool(unit.activation)
        for unit in units
    )
    assert covered == len(network.nodes) - 2


@settings(max_examples=300)
@given(networks())
def test_units_compute_what_the_nodes_do(network: Network) -> None:
    _check(network)


@pytest.mark.parametrize("build", BACKBONES)
def test_units_of_the_backbones(build) -> None:
    network = build()
    _check(network)
    units = fuse(network)
    # Every batch norm, add and activation of these three disappears into a layer.
    assert {unit.node.op for unit in units} <= {"conv2d", "linear", "max_pool", "global_avg_pool", "flatten"}
    assert all(unit.batch_norm is not None for unit in units if unit.node.op == "conv2d")
    adds = {node.name for node in network if node.op == "add"}
    assert sum(unit.residual is not None for unit in units) == len(adds)


@pytest.mark.parametrize("build", BACKBONES)
def test_problems_of_the_backbones(build) -> None:
    network = build()
    problems = [problem_of(network, unit) for unit in fuse(network)]
    assert sum(problem.macs for problem in problems) == network.macs
    for unit, problem in zip(fuse(network), problems, strict=True):
        shape = network.shapes[unit.output]
        assert (problem.out_channels, problem.out_height, problem.out_width) == (*shape, 1, 1)[:3]
        assert problem.is_depthwise == network.is_depthwise(unit.node)
        half = problem_of(network, unit, 0.5)
        assert half.macs == pytest.approx(problem.macs / 2)


@given(networks())
def test_every_unit_has_a_problem(network: Network) -> None:
    for unit in fuse(network):
        problem = problem_of(network, unit)
        shape = network.shapes[unit.output]
        assert (problem.out_channels, problem.out_height, problem.out_width) == (*shape, 1, 1)[:3]
        assert problem.macs == network.node_macs(unit.node)
        assert problem.is_depthwise == network.is_depthwise(unit.node)
        assert problem.activation == unit.activation
        assert problem.residual == (unit.residual is not None)


def test_an_activation_that_others_bypass_stays_alone() -> None:
    net = NetworkBuilder("bypass", (3, 4, 4))
    conv = net.conv("conv", 4, 1)
    net.add("relu", "relu")
    net.add("sum", "add", "relu", conv)
    units = {unit.name: unit for unit in fuse(net.build())}
    assert set(units) == {"conv", "relu", "sum"}
    assert units["conv"].output == "conv"


def test_a_product_by_channel_is_a_scale() -> None:
    network = small_resnet()
    problems = {unit.name: problem_of(network, unit) for unit in fuse(network)}
    assert problems["se.scale"].op == "scale"
    assert problems["join"].in_channels == 20
    assert problems["flatten"].out_channels == 320


@pytest.mark.parametrize(
    "change",
    [
        {"in_channels": 0}, {"out_channels": -4}, {"density": 1.1}, {"density": -0.1}, {"density": float("nan")},
        {"op": "conv3d"}, {"activation": "tanh"}, {"groups": 3}, {"stride": (0, 1)}, {"padding": (0, -1)},
    ],
)  # fmt: skip
def test_impossible_problems(change: dict[str, object]) -> None:
    good = {"op": "conv2d", "in_channels": 8, "in_height": 4, "in_width": 4, "out_channels": 8}
    assert LayerProblem(**good).macs == 8 * 8 * 16
    with pytest.raises(Exception, match="layer problem") as error:
        LayerProblem(**{**good, **change})
    assert type(error.value).__name__ == "NetworkError"


def test_windows_that_do_not_fit_are_impossible() -> None:
    with pytest.raises(Exception, match="layer problem"):
        LayerProblem("conv2d", 4, 3, 3, 4, kernel_size=(5, 5))


def test_equal_problems_are_one() -> None:
    network = resnet18()
    problems = {problem_of(network, unit) for unit in fuse(network)}
    assert len(problems) < len(fuse(network))
    assert np.isfinite(sum(p.macs for p in problems))
