"""Profiles: which points are timed and how often, what noise does, and devices that misbehave."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from core_networks import networks
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_samples import SyntheticDevice, quick_options, seconds_of
from numpy.typing import NDArray

from jcw_core.errors import DeviceError, RecipeError
from jcw_core.fusion import fuse, problem_of
from jcw_core.network import Network
from jcw_core.problem import LayerProblem
from jcw_core.pruning import kept_groups, weight_groups
from jcw_core.shrink import shrink
from jcw_core.space import SearchSpace
from jcw_latency import LatencyOptions, LatencyTable, profile, visits
from jcw_latency.axes import at, unit_axes
from jcw_latency.plan import make_plan, width_points


def measured(
    network: Network, device: SyntheticDevice, partial: Path | None = None, **changes: float
) -> LatencyTable:
    return profile(network, device, quick_options(**changes), rng=np.random.default_rng(0), partial=partial)


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


@settings(deadline=None, max_examples=40)
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
            wanted, found = at(layer.problem, position), plan.problems[place]
            assert _kept(wanted) == _kept(found)
            used.add(int(place))
    assert used == set(range(len(plan.problems)))


def _kept(p: LayerProblem) -> tuple[object, ...]:
    groups = weight_groups(p.out_channels) * (p.in_channels // p.groups) * p.kernel_size[0] * p.kernel_size[1]
    kept = kept_groups(p.density, groups) if p.op in ("conv2d", "linear") else groups
    then = _kept(p.then) if p.then else ()
    return (p.op, p.in_channels, p.out_channels, p.groups, p.in_height, p.in_width, p.residual, kept, then)


@settings(deadline=None, max_examples=25)
@given(network=networks(), seed=st.integers(0, 1000))
def test_grid_members_are_layers_of_shrunk_networks(network: Network, seed: int) -> None:
    """What a shrunk network consists of lies on the axes of the layers it was cut from."""
    space = SearchSpace.of(network, step=1)
    architecture = space.architecture(space.sample(1, np.random.default_rng(seed))[0])
    small = shrink(network, architecture)
    for unit in fuse(network):
        problem = problem_of(small, unit, architecture.densities.get(unit.name, 1.0))
        full = problem_of(network, unit)
        position = {
            "in": problem.in_channels,
            "out": problem.out_channels,
            "channels": problem.in_channels,
            "density": problem.density,
        }
        assert at(full, {axis: position[axis] for axis in unit_axes(network, unit, full)}) == problem


def test_without_noise_every_point_is_timed_the_least_number_of_times(network: Network) -> None:
    device = SyntheticDevice()
    table = measured(network, device, min_rounds=3)
    assert set(Counter(device.visits).values()) == {1}
    for grid in table.grids:
        timed = grid.ms > 0
        assert (grid.rounds[timed] == 3).all()
        assert (grid.rounds[~timed] == 0).all()
        assert (grid.spread_ms == 0).all()


def test_noise_is_answered_with_rounds(network: Network) -> None:
    table = measured(network, SyntheticDevice(noise=0.1), min_rounds=3, rounds=40, tolerance=0.05)
    exact = measured(network, SyntheticDevice())
    errors, rounds = [], []
    for one, other in zip(table.grids, exact.grids, strict=True):
        timed = other.ms > 0
        errors += list(one.ms[timed] / other.ms[timed] - 1)
        rounds += list(one.rounds[timed])
    assert max(rounds) > 6
    assert np.mean(np.abs(errors)) < 0.05
    assert all(g.spread_ms[g.ms > 0].mean() > 0 for g in table.grids)


class Spiky(SyntheticDevice):
    """Someone else's work costs one visit in ten three times as much."""

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        times = super().measure(problems, rounds=rounds)
        return np.where(self.rng.uniform(size=times.shape) < 0.1, 3 * times, times)


def test_medians_ignore_spikes(network: Network) -> None:
    table = measured(network, Spiky(), min_rounds=9, rounds=30)
    exact = measured(network, SyntheticDevice())
    for one, other in zip(table.grids, exact.grids, strict=True):
        assert np.isclose(one.ms, other.ms).mean() > 0.95


class Dented(SyntheticDevice):
    """The first visit finds the dense full-width layers implausibly fast."""

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        seen = Counter(self.visits)
        times = super().measure(problems, rounds=rounds)
        dented = [p.density == 1 and p.op == "conv2d" and not seen[p] for p in problems]
        return np.where(dented, 0.3 * times, times)


def test_broken_monotonicity_is_measured_again(network: Network) -> None:
    device = Dented()
    table = measured(network, device, min_rounds=3, rounds=12)
    exact = measured(network, SyntheticDevice())
    again = [p for p, count in Counter(device.visits).items() if count > 1]
    assert again
    assert len(again) < len(set(device.visits)) / 2
    assert table.settings["not_monotone"] == 0
    # What no prediction would notice is not worth a visit.
    mean_layer = np.mean([g.ms.max() for g in exact.grids])
    for one, other in zip(table.grids, exact.grids, strict=True):
        if "density" in one.axes:
            np.testing.assert_allclose(one.ms, other.ms, rtol=1e-12, atol=0.02 * mean_layer)


def test_a_layer_that_is_not_monotone_stays_as_measured(network: Network) -> None:
    class Stepped(SyntheticDevice):
        def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
            slow = [2.0 if p.out_channels == 8 else 1.0 for p in problems]
            return super().measure(problems, rounds=rounds) * slow

    table = measured(network, Stepped())
    assert table.settings["not_monotone"] > 0
    stem = table.grids[0]
    assert stem.ms[stem.axes["out"].index(8.0)] == pytest.approx(
        2e3 * seconds_of(at(stem.problem, {"out": 8}))
    )


class Slowing(SyntheticDevice):
    """Args: slow: calls, counted from 0, at which everything takes twice as long."""

    slow: Sequence[int] = ()
    calls = -1

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        self.calls += 1
        return super().measure(problems, rounds=rounds) * (2 if self.calls in self.slow else 1)


def test_visits_to_a_busy_machine_are_repeated(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "_BATCH_SIZE", 20)
    device = Slowing()
    device.slow = range(5, 8)
    table = measured(network, device, min_rounds=3, rounds=3)
    assert table.settings["disturbed_visits"] == 3
    exact = measured(network, SyntheticDevice())
    for one, other in zip(table.grids, exact.grids, strict=True):
        np.testing.assert_array_equal(one.ms, other.ms)


def test_a_machine_that_stays_busy_is_measured_all_the_same(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits, "_BATCH_SIZE", 20)
    device = Slowing()
    device.slow = range(5, 1000)
    table = measured(network, device, min_rounds=3, rounds=3)
    assert table.settings["drift"] == pytest.approx(1.0)
    assert table.settings["disturbed_visits"] < 20


class Dying(SyntheticDevice):
    """Args: lives: calls that it answers."""

    lives = 1

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        if self.lives == 0:
            raise DeviceError("device 'synthetic' died")
        self.lives -= 1
        return super().measure(problems, rounds=rounds)


def test_what_a_dying_device_measured_is_kept(network: Network, tmp_path: Path) -> None:
    partial = tmp_path / "partial.npz"
    dying, fresh = Dying(), SyntheticDevice()
    with pytest.raises(DeviceError, match="died"):
        measured(network, dying, partial)
    table = measured(network, fresh, partial)
    assert dying.visits
    assert not set(dying.visits) & set(fresh.visits)
    exact = measured(network, SyntheticDevice())
    for one, other in zip(table.grids, exact.grids, strict=True):
        np.testing.assert_array_equal(one.ms, other.ms)


@pytest.mark.parametrize("change", ["device", "damage"])
def test_a_partial_profile_of_something_else_is_not_used(
    network: Network, tmp_path: Path, change: str
) -> None:
    partial = tmp_path / "partial.npz"
    measured(network, SyntheticDevice(), partial)
    device = SyntheticDevice()
    if change == "damage":
        partial.write_bytes(partial.read_bytes()[:-30])
    if change == "device":
        device.describe = lambda: Changed().describe()  # type: ignore[method-assign]
    measured(network, device, partial)
    assert device.visits


def test_a_finer_grid_takes_over_the_points_of_a_coarser_one(network: Network, tmp_path: Path) -> None:
    partial = tmp_path / "partial.npz"
    coarse, fine = SyntheticDevice(), SyntheticDevice()
    measured(network, coarse, partial, widths=2)
    table = measured(network, fine, partial, widths=4)
    assert not set(coarse.visits) & set(fine.visits)
    exact = measured(network, SyntheticDevice(), widths=4)
    for one, other in zip(table.grids, exact.grids, strict=True):
        np.testing.assert_array_equal(one.ms, other.ms)


class Changed(SyntheticDevice):
    def describe(self):  # type: ignore[no-untyped-def]
        from dataclasses import replace

        return replace(super().describe(), versions={"formula": "2"})


@pytest.mark.parametrize("answer", ["fewer", "flat", "more"])
def test_fewer_results_than_problems(network: Network, answer: str) -> None:
    class Short(SyntheticDevice):
        def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
            times = super().measure(problems, rounds=rounds)
            return {"fewer": times[:, :-1], "flat": times[0], "more": np.vstack([times, times])}[answer]

    with pytest.raises(DeviceError, match="returned times of shape"):
        measured(network, Short())


def test_a_device_that_hangs(network: Network) -> None:
    class Hanging(SyntheticDevice):
        def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
            time.sleep(3)
            return super().measure(problems, rounds=rounds)

    with pytest.raises(DeviceError, match="has not answered for 1 s"):
        measured(network, Hanging(), timeout=1.0)


@pytest.mark.parametrize("value", [np.nan, -1.0, 0.0, np.inf])
def test_times_that_are_none(network: Network, value: float) -> None:
    """A clock that jumps costs a round; a layer that never has a time is named."""

    class Jumping(SyntheticDevice):
        always = False

        def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
            times = super().measure(problems, rounds=rounds)
            odd = np.array([p.op == "linear" for p in problems])
            return np.where(odd & (self.always | (np.arange(rounds)[:, None] == 0)), value, times)

    device = Jumping()
    table = measured(network, device, min_rounds=3)
    linear = next(g for g in table.grids if g.problem.op == "linear")
    assert set(linear.rounds[linear.ms > 0]) == {2}
    device.always = True
    with pytest.raises(DeviceError, match="could not time linear"):
        measured(network, device)


def test_impossible_options() -> None:
    with pytest.raises(RecipeError, match="below min_rounds"):
        LatencyOptions(rounds=2, min_rounds=3)


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[1]); sys.path.insert(0, sys.argv[2])
import numpy as np
from pathlib import Path
from core_networks import small_resnet
from latency_samples import SyntheticDevice, quick_options
import jcw_latency.profiling as profiling
profiling._SAVE_SECONDS = 0.0
profiling.batches.__globals__['_BATCH_SIZE'] = 20

class Slow(SyntheticDevice):
    def measure(self, problems, *, rounds):
        time.sleep(0.05)
        print(len(self.visits), flush=True)
        return super().measure(problems, rounds=rounds)

profiling.profile(small_resnet(width=16), Slow(), quick_options(), rng=np.random.default_rng(0),
                  partial=Path(sys.argv[3]))
"""


def test_killed_at_any_moment_it_goes_on(network: Network, tmp_path: Path) -> None:
    here = Path(__file__).parent
    folders = [str(here), str(here.parents[1] / "jcw-core" / "tests")]
    partial = tmp_path / "partial.npz"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, *folders, str(partial)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 100:
            os.kill(process.pid, signal.SIGKILL)
            break
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    device = SyntheticDevice()
    table = measured(network, device, partial)
    points = table.settings["points"]
    assert 0 < len(device.visits) <= points - 60
    exact = measured(network, SyntheticDevice())
    for one, other in zip(table.grids, exact.grids, strict=True):
        np.testing.assert_array_equal(one.ms, other.ms)
