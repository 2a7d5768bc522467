"""Which points of a layer's grid a profile times."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from core_networks import networks
from hypothesis import given, settings
from hypothesis import strategies as st

from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.problem import LayerProblem
from jcw_core.network.shrink import shrink
from jcw_core.network.weight_groups import kept_groups, weight_groups
from jcw_core.space.space import SearchSpace
from jcw_latency.profiling.grid import make_plan, width_points
from jcw_latency.table.axes import layer_at, layer_axes


@pytest.mark.parametrize(
    ("channels", "count", "step", "points"),
    [
        (64, 8, 4, (0, 8, 16, 24, 32, 40, 48, 56, 64)),
        (24, 8, 4, (0, 4, 8, 12, 16, 20, 24)),
        (16, 8, 4, (0, 4, 8, 12, 16)),
        (6, 8, 4, (0, 4, 6)),
        (3, 8, 4, (0, 3)),
        (1, 8, 4, (0, 1)),
        (10, 2, 1, (0, 5, 10)),
    ],
)
def test_widths_are_whole_steps(channels: int, count: int, step: int, points: tuple[int, ...]) -> None:
    assert width_points(channels, count, step) == points


def test_widths_at_midpoints() -> None:
    assert width_points(64, 4, 4, "midpoint") == (0, 8, 24, 40, 64)
    assert width_points(16, 8, 4, "midpoint") == (0, 4, 8, 12, 16)
    assert width_points(1, 3, 4, "midpoint") == (0, 1)


@settings(max_examples=40)
@given(network=networks(), widths=st.integers(1, 9), densities=st.integers(1, 11), step=st.integers(1, 5))
def test_every_grid_point_is_planned_once(network: Network, widths: int, densities: int, step: int) -> None:
    plan = make_plan(network, widths=widths, densities=densities, step=step)
    assert len(set(plan.problems)) == len(plan.problems)
    used = set()
    for layer in plan.layers:
        for place, corner in zip(layer.index.flat, itertools.product(*layer.axes.values()), strict=True):
            position = dict(zip(layer.axes, corner, strict=True))
            if any(value == 0 and axis != "density" for axis, value in position.items()):
                assert place == -1
                continue
            wanted, found = layer_at(layer.problem, position), plan.problems[place]
            assert _kept(wanted) == _kept(found)
            used.add(int(place))
    assert used == set(range(len(plan.problems)))


def _kept(p: LayerProblem) -> tuple[object, ...]:
    groups = weight_groups(p.out_channels) * (p.in_channels // p.groups) * p.kernel_size[0] * p.kernel_size[1]
    kept = kept_groups(p.density, groups) if p.op in ("conv2d", "linear") else groups
    then = _kept(p.then) if p.then else ()
    return (p.op, p.in_channels, p.out_channels, p.groups, p.in_height, p.in_width, p.residual, kept, then)


@settings(max_examples=25)
@given(network=networks(), seed=st.integers(0, 1000))
def test_grid_members_are_layers_of_shrunk_networks(network: Network, seed: int) -> None:
    """What a shrunk network consists of lies on the axes of the layers it was cut from."""
    space = SearchSpace.of(network, step=1)
    architecture = space.architecture(space.sample(1, np.random.default_rng(seed))[0])
    small = shrink(network, architecture)
    for layer in fuse(network):
        problem = problem_of(small, layer, architecture.densities.get(layer.name, 1.0))
        full = problem_of(network, layer)
        position = {
            "in": problem.in_channels,
            "out": problem.out_channels,
            "channels": problem.in_channels,
            "density": problem.density,
        }
        assert layer_at(full, {axis: position[axis] for axis in layer_axes(network, layer, full)}) == problem
