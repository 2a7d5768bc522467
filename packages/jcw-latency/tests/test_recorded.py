"""The device ``recorded``: answers from a table, interpolated, and refuses layers that it does not hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from latency_samples import SyntheticDevice, quick_options, seconds_of

from jcw_core.errors import DeviceError
from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.problem import LayerProblem
from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable, profile_space
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.devices.recorded import RecordedDevice
from jcw_latency.profiling.grid import make_plan
from jcw_latency.profiling.networks import NetworkRuns
from jcw_latency.table.axes import layer_at
from jcw_latency.table.end_to_end import EndToEndFit


def test_recorded_device_answers_what_was_measured(network: Network, table: LatencyTable) -> None:
    device, plan = RecordedDevice(table, Path("table.npz")), make_plan(network, widths=4, densities=5, step=4)
    times = device.measure(plan.problems, rounds=3)
    assert times.shape == (3, len(plan.problems))
    np.testing.assert_allclose(times, SyntheticDevice().measure(plan.problems, rounds=3), rtol=1e-12)
    assert device.describe().cpu == "formula"


def test_a_copy_predicts_what_the_original_does(network: Network, table: LatencyTable) -> None:
    whole = {"small": EndToEndFit(1.2, -0.01, 0.5, 3.0, 0.02), "other": EndToEndFit(9.0)}
    original = replace(table, end_to_end=whole)
    copy, space = copied(original, network), SearchSpace.of(network)
    assert copy.end_to_end == {"small": whole["small"]}
    population = space.sample(300, np.random.default_rng(0))
    one, other = (LatencyPredictor(t, space).predict(population) for t in (original, copy))
    np.testing.assert_allclose(other, one, rtol=1e-12)


def test_end_to_end_fit_of_a_namesake_is_not_copied(table: LatencyTable) -> None:
    net = NetworkBuilder("small", (3, 8, 8))
    net.conv("stem", 16, 3)
    net.add("stem_relu", "relu")
    assert not copied(replace(table, end_to_end={"small": EndToEndFit(2.0)}), net.build()).end_to_end


def copied(table: LatencyTable, network: Network) -> LatencyTable:
    return profile_space(
        SearchSpace.of(network),
        GuardedDevice(RecordedDevice(table, Path("table.npz")), 60.0),
        quick_options(),
        rng=np.random.default_rng(0),
        folder=Path(),
    )


def test_recorded_device_tells_second_convolutions_apart(table: LatencyTable) -> None:
    device = RecordedDevice(table, Path("table.npz"))
    pair = next(grid.problem for grid in table.grids if grid.problem.then is not None)
    narrow = layer_at(pair, {"in": 6, "out": 5, "density": 0.0})
    assert narrow.then is not None
    assert (narrow.then.in_channels, narrow.then.groups) == (5, 5)
    assert device.measure([narrow], rounds=1)[0, 0] == pytest.approx(seconds_of(narrow), rel=1e-12)
    for then in (replace(narrow.then, activation="relu"), replace(narrow.then, stride=(2, 2))):
        with pytest.raises(DeviceError, match="it has no layer"):
            device.measure([replace(narrow, then=then)], rounds=1)
    # Another layer of the network has its first one's shape.
    alone = replace(narrow, then=None)
    assert device.measure([alone], rounds=1)[0, 0] == pytest.approx(seconds_of(alone), rel=1e-12)


def test_networks_of_one_channel_are_recorded_layers(network: Network, table: LatencyTable) -> None:
    """Cut to one channel, a depthwise convolution looks like any other, but is timed as what it was."""
    guarded = GuardedDevice(RecordedDevice(table, Path("table.npz")), 60.0)
    runs = NetworkRuns(
        network,
        [Architecture({"branch": 1, "stem": 1}, {})],
        guarded,
        rounds=1,
        rng=np.random.default_rng(0),
        folder=Path(),
    )
    predictor = LatencyPredictor(table, SearchSpace.of(network, step=1))
    expected = predictor.breakdown(runs.chosen[0]).total_ms
    assert runs.finish()[0] == pytest.approx(expected, rel=1e-9)


def test_recorded_device_refuses_unknown_layers_and_models(table: LatencyTable, tmp_path: Path) -> None:
    device = RecordedDevice(table, Path("table.npz"))
    with pytest.raises(DeviceError, match=r"table.npz: made for small; it has no layer"):
        device.measure([LayerProblem("conv2d", 3, 99, 99, 16, (3, 3))], rounds=1)
    with pytest.raises(DeviceError, match="cannot run models"):
        device.measure_models([tmp_path], rounds=1)
