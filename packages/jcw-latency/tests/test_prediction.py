"""Prediction against scipy, against a device whose latencies are exactly trilinear, and on bad values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from core_networks import networks
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_samples import SyntheticDevice, network_seconds, quick_options, seconds_of
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator

from jcw_core.errors import ArchitectureError, FormatError
from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.shrink import shrink
from jcw_core.protocols import DeviceInfo
from jcw_core.registry import Registry
from jcw_core.space.space import Bound, SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable, profile, table_from_arrays
from jcw_latency.profiling.grid import width_points
from jcw_latency.table import interpolate
from jcw_latency.table.axes import CHANNELS, DENSITY, IN, OUT, has_channel_pair
from jcw_latency.table.end_to_end import EndToEndFit

DEVICE = DeviceInfo("recorded", "none", "none", 1)


def chain(*channels: int) -> Network:
    net = NetworkBuilder("chain", (3, 12, 12))
    for index, count in enumerate(channels):
        net.conv(f"conv{index}", count, 3)
        net.add(f"relu{index}", "relu")
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", 10)
    return net.build()


def random_table(network: Network, rng: np.random.Generator, points: int = 5) -> LatencyTable:
    """Random costs on regular grids, with the axes in a random order."""
    arrays, axes = {}, {}
    for layer in fuse(network):
        if has_channel_pair(problem_of(network, layer)):
            order = tuple(rng.permutation([IN, OUT, DENSITY]))
            arrays[layer.name] = rng.uniform(size=(points,) * 3)
        else:
            order = (CHANNELS,)
            arrays[layer.name] = rng.uniform(size=points)
        axes[layer.name] = order
    return table_from_arrays(network, arrays, axes=axes, device=DEVICE)


def by_scipy(table: LatencyTable, space: SearchSpace, population: NDArray[np.float64]) -> NDArray[np.float64]:
    network, total = space.network, np.zeros(len(population))
    for layer in fuse(network):
        grid = table.grid(network, layer)
        at = {
            IN: space.channels(population, layer.inputs[0]),
            CHANNELS: space.channels(
                population, layer.name if layer.node.op == "concat" else layer.inputs[0]
            ),
            OUT: space.channels(population, layer.output),
            DENSITY: space.density(population, layer.name),
        }
        where = np.stack([at[axis] for axis in grid.axes], axis=-1)
        total += RegularGridInterpolator(list(grid.axes.values()), grid.ms)(where)
    return total


@pytest.mark.parametrize("size", [1, 7, 255, 256, 5000])
@pytest.mark.parametrize("backbone", ["resnet18", "mobilenet_v1", "mobilenet_v2"])
def test_equals_scipy_on_the_backbones(backbone: str, size: int) -> None:
    plugin = Registry().backbones[backbone]
    network = plugin.build(num_classes=10, width=0.25, input_size=32)
    rng = np.random.default_rng(size)
    table, space = random_table(network, rng), SearchSpace.of(network, defaults=plugin.bounds)
    population = space.sample(size, rng)
    np.testing.assert_allclose(
        LatencyPredictor(table, space).predict(population), by_scipy(table, space, population), rtol=1e-12
    )


@settings(max_examples=40)
@given(network=networks(), step=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_equals_scipy_on_random_networks(network: Network, step: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, space = random_table(network, rng), SearchSpace.of(network, step=step)
    population = space.sample(300, rng)
    for some in (population, population[:3]):
        np.testing.assert_allclose(
            LatencyPredictor(table, space).predict(some), by_scipy(table, space, some), rtol=1e-12
        )


def test_widths_between_the_steps_are_interpolated_too() -> None:
    rng = np.random.default_rng(5)
    network = chain(16, 32)
    table, space = random_table(network, rng), SearchSpace.of(network)
    population = np.floor(rng.uniform(1, space.maximum + 1, size=(400, space.dimensions)))
    population[:, [v.kind == "density" for v in space.variables]] = rng.uniform(
        size=(400, sum(v.kind == "density" for v in space.variables))
    )
    np.testing.assert_allclose(
        LatencyPredictor(table, space).predict(population), by_scipy(table, space, population), rtol=1e-12
    )


def test_exact_where_latency_is_trilinear(table: LatencyTable, space: SearchSpace) -> None:
    rng = np.random.default_rng(1)
    network = chain(16, 32, 16)
    # Quarters: every layer's weight groups divide into them, so no density is rounded.
    quarters = profile(network, SyntheticDevice(), quick_options(densities=4), rng=rng)
    dense = SearchSpace.of(space.network, defaults=[Bound("*", width=0.01, density=1)])
    for made, members in ((table, dense), (quarters, SearchSpace.of(network))):
        population = members.sample(500, rng)
        predicted = LatencyPredictor(made, members).predict(population)
        for row, milliseconds in zip(population[::25], predicted[::25], strict=True):
            architecture = members.architecture(row)
            exact = network_seconds(shrink(members.network, architecture), dict(architecture.densities))
            assert milliseconds == pytest.approx(exact * 1e3, rel=1e-12)


def test_a_depthwise_convolution_is_as_wide_as_the_one_before_it(
    table: LatencyTable, space: SearchSpace
) -> None:
    """Its cost goes by the output channels of the layer, whatever the density."""
    predictor = LatencyPredictor(table, space)
    for width, density in ((12, 0.2), (8, 1.0), (4, 0.4)):
        architecture = Architecture({"branch": width}, {"branch": density})
        small = shrink(space.network, architecture)
        layer = next(layer for layer in fuse(small) if layer.then is not None)
        exact = seconds_of(problem_of(small, layer, density))
        parts = predictor.breakdown(architecture).layers
        assert "branch_dw" not in parts
        assert parts["branch"] == pytest.approx(1e3 * exact, rel=1e-12)


def test_breakdown_adds_up(network: Network, table: LatencyTable, space: SearchSpace) -> None:
    row = space.sample(1, np.random.default_rng(2))
    predictor = LatencyPredictor(table, space)
    parts = predictor.breakdown(space.architecture(row[0]))
    assert list(parts.layers) == [layer.name for layer in fuse(network)]
    assert sum(parts.layers.values()) == pytest.approx(predictor.predict(row)[0], rel=1e-12)


def test_layers_may_have_any_name() -> None:
    net = NetworkBuilder("named", (3, 6, 6))
    for name in ("overhead", "overhead_ms", "layers"):
        net.conv(name, 8, 3)
    table = replace(
        random_table(net.build(), np.random.default_rng(0)), end_to_end={"named": EndToEndFit(1.5, 0.25)}
    )
    space = SearchSpace.of(table.networks[0])
    parts = LatencyPredictor(table, space).breakdown(Architecture({}, {}))
    assert list(parts.layers) == ["overhead", "overhead_ms", "layers"]
    assert parts.overhead_ms == 0.25
    assert parts.total_ms == pytest.approx(by_scipy(table, space, space.maximum[None])[0] * 1.5 + 0.25)


def test_end_to_end_fit_applies_once_to_the_sum(table: LatencyTable, space: SearchSpace) -> None:
    costly = replace(table, end_to_end={"small": EndToEndFit(1.2, 0.5, 0.3), "other": EndToEndFit(9.0, 9.0)})
    for size in (3, 300):
        population = space.sample(size, np.random.default_rng(3))
        whole, layers = (LatencyPredictor(t, space).predict(population) for t in (costly, table))
        np.testing.assert_allclose(whole, 1.2 * layers + 0.3 * layers**2 + 0.5, rtol=1e-12)
        np.testing.assert_allclose(costly.end_to_end["small"].sums(whole), layers, rtol=1e-12)
    parts = LatencyPredictor(costly, space).breakdown(space.architecture(population[0]))
    assert parts.overhead_ms == 0.5
    assert parts.total_ms == pytest.approx(whole[0], rel=1e-12)


def test_predictions_below_the_smallest_run_are_proportional(table: LatencyTable, space: SearchSpace) -> None:
    for size in (3, 300):
        population = space.sample(size, np.random.default_rng(3))
        layers = LatencyPredictor(table, space).predict(population)
        smallest = np.median(layers)
        costly = replace(table, end_to_end={"small": EndToEndFit(1.2, -smallest, 0.3, smallest_ms=smallest)})
        curve = 1.2 * layers + 0.3 * layers**2 - smallest
        share = 0.2 + 0.3 * smallest
        expected = np.where(layers < smallest, share * layers, curve)
        predictor = LatencyPredictor(costly, space)
        np.testing.assert_allclose(predictor.predict(population), expected, rtol=1e-12)
        for place in (layers.argmin(), layers.argmax()):
            parts = predictor.breakdown(space.architecture(population[place]))
            assert parts.total_ms == pytest.approx(expected[place], rel=1e-12)
            assert min(parts.layers.values()) > 0


@pytest.mark.parametrize("size", [1, 300])
@pytest.mark.parametrize("value", [np.nan, -1.0, 1e9, np.inf])
def test_values_outside_the_network_are_named(
    table: LatencyTable, space: SearchSpace, size: int, value: float
) -> None:
    for column, variable in ((0, space.variables[0]), (space.dimensions - 1, space.variables[-1])):
        population = space.sample(size, np.random.default_rng(4))
        population[-1, column] = value
        with pytest.raises(ArchitectureError, match=f"{variable.kind} of '{variable.name}' lies outside"):
            LatencyPredictor(table, space).predict(population)


def test_population_of_another_space(table: LatencyTable, space: SearchSpace) -> None:
    with pytest.raises(ArchitectureError, match="expected"):
        LatencyPredictor(table, space).predict(np.ones((2, space.dimensions + 1)))
    assert LatencyPredictor(table, space).predict(np.ones((0, space.dimensions))).shape == (0,)


def test_table_of_another_network(table: LatencyTable) -> None:
    with pytest.raises(FormatError, match=r"no layer for 'conv0'.*made for small"):
        LatencyPredictor(table, SearchSpace.of(chain(8, 8)))


def test_unknown_group(table: LatencyTable, space: SearchSpace) -> None:
    with pytest.raises(ArchitectureError, match="no width named 'nothing'"):
        LatencyPredictor(table, space).breakdown(Architecture({"nothing": 4}, {}))


def test_shapes_are_shared_and_axes_joined() -> None:
    """Layers of one shape are timed once, though only some of them may be cut on an axis."""
    network = chain(16, 16, 16)
    device = SyntheticDevice()
    table = profile(network, device, quick_options(), rng=np.random.default_rng(0))
    same = [g for g in table.grids if g.problem == problem_of(network, fuse(network)[1])]
    assert len(same) == 1
    assert set(same[0].axes) == {IN, OUT, DENSITY}
    assert len(table.grids) == len(fuse(network)) - 1


REFERENCE = Path(__file__).parents[4] / "shared" / "reference" / "cortex-a72-resnet18"


@pytest.mark.skipif(
    not REFERENCE.is_dir(), reason="the paper's Cortex-A72 table is not beside the repository"
)
def test_published_latencies_of_the_papers_table() -> None:
    network = Registry().backbones["resnet18"].build()
    runtime = np.load(REFERENCE / "runtime.npy", allow_pickle=False)
    log = (REFERENCE / "conv_info.log").read_text().split("\n")
    free = [u for u in fuse(network) if u.node.op == "conv2d"]
    arrays, axes = {}, {}
    for line, grid in zip(filter(None, log), runtime, strict=True):
        wanted = tuple(int(word) for word in line.split()[:5])
        layer = next(u for u in free if _shape(network, u) == wanted)
        free.remove(layer)
        first = wanted[0] == 3
        arrays[layer.name] = grid[:, 2] if first else grid
        axes[layer.name] = (OUT, DENSITY) if first else (OUT, IN, DENSITY)
    assert not free
    table = table_from_arrays(network, arrays, axes=axes, device=DEVICE, others="free")
    for density, fact in ((1.0, 397.095), (0.4, 245.924), (0.1, 118.982), (0.0, 65.670)):
        whole = [
            interpolate(g, {IN: g.problem.in_channels, OUT: g.problem.out_channels, DENSITY: density})
            for g in table.grids
            if g.problem.op == "conv2d"
        ]
        assert sum(whole) == pytest.approx(fact, abs=1e-3)
    predictor = LatencyPredictor(table, SearchSpace.of(network))
    assert predictor.breakdown(Architecture({}, {})).total_ms == pytest.approx(397.095, abs=1e-3)


@pytest.mark.skipif(
    not REFERENCE.is_dir(), reason="the paper's Cortex-A72 table is not beside the repository"
)
def test_midpoints_predict_the_papers_table_better_than_even_points() -> None:
    """Thinned to half the points on each axis, the rest is predicted; even points are 6.4 % off."""
    runtime = np.load(REFERENCE / "runtime.npy", allow_pickle=False)[1:]
    every = [tuple(int(w) for w in width_points(8, 4, 1, p)) for p in ("even", "midpoint")]
    even, midpoint = (np.mean([_left_out_error(grid, widths) for grid in runtime]) for widths in every)
    assert even == pytest.approx(0.0636, abs=1e-3)
    assert midpoint < 0.015


def _left_out_error(grid: NDArray[np.float64], widths: tuple[int, ...]) -> float:
    """Mean relative error at the points that linear interpolation between some of them does not hold."""
    kept, densities = np.array(widths), np.arange(0, 11, 2)
    predict = RegularGridInterpolator((kept, kept, densities), grid[np.ix_(kept, kept, densities)])
    points = np.stack(np.meshgrid(range(1, 9), range(1, 9), range(11), indexing="ij"), axis=-1).reshape(-1, 3)
    out = ~(np.isin(points[:, 0], kept) & np.isin(points[:, 1], kept) & (points[:, 2] % 2 == 0))
    truth = grid[tuple(points[out].T)]
    return float(np.abs(predict(points[out]) / truth - 1).mean())


def _shape(network: Network, layer: object) -> tuple[int, ...]:
    p = problem_of(network, layer)  # type: ignore[arg-type]
    return (p.in_channels, p.in_height, p.out_channels, p.kernel_size[0], p.stride[0])
