"""Adaptive grids: few points where latency is linear, more where it is not, never more than a full grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from core_networks import networks
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_samples import Plugin, SyntheticDevice, quick_options, seconds_of
from numpy.typing import NDArray

from jcw_core.cli.main import build
from jcw_core.errors import DeviceError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.problem import LayerProblem
from jcw_core.registry import Registry
from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable, profile
from jcw_latency.profiling.adaptive import MOST_POINTS, coarse_axes, probes
from jcw_latency.profiling.convergence import Convergence
from jcw_latency.profiling.grid import make_plan, width_points
from jcw_latency.profiling.samples import Samples


class Bent(SyntheticDevice):
    """A part that does not shrink with the density, and a constant: nothing is linear down to 0."""

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        times = super().measure(problems, rounds=rounds)
        whole = np.array([seconds_of(LayerProblem(**{**_fields(p), "density": 1.0})) for p in problems])
        return np.maximum(times, 0.4 * whole) + 2e-6


def _fields(p: LayerProblem) -> dict[str, object]:
    return {name: getattr(p, name) for name in p.__dataclass_fields__}


def wide() -> Network:
    net = NetworkBuilder("wide", (3, 16, 16))
    net.conv("conv1", 64, 3)
    net.conv("conv2", 64, 3)
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", 10)
    return net.build()


def adapted(device: SyntheticDevice, checkpoint: Path | None = None, **changes: float) -> LatencyTable:
    options = quick_options(adaptive=True, **changes)
    return profile(wide(), device, options, rng=np.random.default_rng(0), checkpoint=checkpoint)


def error(table: LatencyTable, device: SyntheticDevice) -> float:
    """Mean relative error over random positions of the widest layer."""
    grid = max(table.grids, key=lambda g: g.problem.macs)
    space = SearchSpace.of(wide())
    population = space.sample(300, np.random.default_rng(1))
    predictor = LatencyPredictor(LatencyTable(table.device, table.networks, table.grids), space)
    mine = [predictor.breakdown(space.architecture(row)).layers["conv2"] for row in population[:60]]
    problems = [
        LayerProblem(
            **{
                **_fields(grid.problem),
                "in_channels": int(space.channels(row[None], "conv1")[0]),
                "out_channels": int(space.channels(row[None], "conv2")[0]),
                "density": float(space.density(row[None], "conv2")[0]),
            }
        )
        for row in population[:60]
    ]
    truth = device.measure(problems, rounds=1)[0] * 1e3
    return float(np.abs(np.array(mine) / truth - 1).mean())


def test_linear_layers_need_few_points() -> None:
    device = SyntheticDevice()
    table = adapted(device)
    full = profile(
        wide(), SyntheticDevice(), quick_options(widths=8, densities=10), rng=np.random.default_rng(0)
    )
    assert table.settings["points"] < 0.2 * full.settings["points"]
    assert all(
        len(points) == 3 for grid in table.grids if len(grid.axes) > 1 for points in grid.axes.values()
    )
    assert error(table, device) < 1e-9


def test_a_layer_with_one_axis_has_its_full_grid() -> None:
    """The middle of a coarse cell can lie on the very line that the points between do not."""

    class Stairs(SyntheticDevice):
        def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
            lone = np.array([p.in_channels == 3 for p in problems])
            steps = np.array([-(-p.out_channels // 16) * 1e-5 for p in problems])
            return np.where(lone, steps, super().measure(problems, rounds=rounds))

    stem = adapted(Stairs()).grids[0]
    assert stem.axes["out"] == width_points(64, 8, 4)
    np.testing.assert_allclose(stem.ms, [0.01 * -(-out // 16) for out in stem.axes["out"]], rtol=1e-12)


def test_interpolation_tolerance_shrinks_with_the_length_of_layers() -> None:
    plan = make_plan(wide(), widths=2, densities=2, step=4)
    samples = Samples(len(plan.problems), rounds=1)
    seconds = SyntheticDevice().measure(plan.problems, rounds=1)
    samples.add(np.arange(len(plan.problems)), seconds)
    allowed = Convergence(plan, samples, quick_options(adaptive_tolerance=0.1)).interpolation_tolerance()
    mean = np.mean([seconds[0, layer.index.flat[-1]] for layer in plan.layers])
    long = seconds[0] > mean
    assert 0 < long.sum() < len(long)
    np.testing.assert_allclose(allowed[~long], 0.1 * mean)
    np.testing.assert_allclose(allowed[long] ** 2, 0.01 * mean * seconds[0, long])


def test_curved_latency_gets_more_points() -> None:
    coarse, fine = (adapted(Bent(), adaptive_tolerance=tolerance) for tolerance in (1.0, 0.03))
    assert fine.settings["points"] > coarse.settings["points"]
    assert error(fine, Bent()) < 0.5 * error(coarse, Bent())
    assert all(grid.ms.size <= MOST_POINTS for grid in fine.grids)
    conv2 = max(fine.grids, key=lambda g: g.problem.macs)
    assert len(set(np.round(np.diff(conv2.axes["density"]), 6))) > 1


@pytest.mark.parametrize(
    "settings", [["--adaptive"], ["--set", "adaptive=true"], ["--adaptive", "--set", "adaptive=false"]]
)
def test_adaptive_flag_is_the_recipes_key(tmp_path: Path, settings: list[str]) -> None:
    (tmp_path / "wide.json").write_text(wide().to_json())
    arguments = [
        "profile",
        str(tmp_path / "wide.json"),
        "--device",
        "synthetic",
        "-o",
        str(tmp_path / "t.npz"),
    ]
    registry = Registry({"synthetic": Plugin()})
    done = CliRunner().invoke(build(registry), [*arguments, *settings], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    expected = adapted(SyntheticDevice())
    assert [g.axes for g in LatencyTable.load(tmp_path / "t.npz").grids] == [g.axes for g in expected.grids]


def test_refined_grids_time_no_point_twice() -> None:
    device = Bent()
    adapted(device, adaptive_tolerance=0.03, rounds=3)
    assert set(Counter(device.timed).values()) == {1}


def test_adaptive_profile_resumes(tmp_path: Path) -> None:
    class Dying(Bent):
        lives = 1

        def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
            if not self.lives:
                raise DeviceError("died")
            self.lives -= 1
            return super().measure(problems, rounds=rounds)

    checkpoint, dying, device = tmp_path / "partial.npz", Dying(), Bent()
    with pytest.raises(DeviceError, match="died"):
        adapted(dying, checkpoint)
    table = adapted(device, checkpoint)
    assert dying.timed
    assert not set(dying.timed) & set(device.timed)
    expected = adapted(Bent())
    for one, other in zip(table.grids, expected.grids, strict=True):
        assert dict(one.axes) == dict(other.axes)
        np.testing.assert_array_equal(one.ms, other.ms)


@settings(max_examples=25)
@given(network=networks(), step=st.integers(1, 5))
def test_probes_lie_inside_their_cells(network: Network, step: int) -> None:
    axes = coarse_axes(network, step)
    for probe in probes(axes, step):
        points = axes[probe.layer][probe.axis]
        assert points[0] < probe.middle < points[-1]
        assert probe.middle not in points
        assert probe.position[probe.axis] == probe.middle
        assert probe.problem.in_channels >= 1
