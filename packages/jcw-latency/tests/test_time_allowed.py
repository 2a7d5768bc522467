"""Profiles that end when their time is over: with every point timed, whatever the time, and with a word on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from latency_samples import SyntheticDevice, TextExporter, assert_same_times, quick_options
from numpy.typing import NDArray
from test_latency_plugin import context, context_of, registry

from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.network.problem import LayerProblem
from jcw_core.protocols import Progress
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable, profile, profile_space
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.fidelity.verdict import judge
from jcw_latency.profiling import networks as network_runs
from jcw_latency.profiling import reference
from jcw_latency.profiling.grid import make_plan
from jcw_latency.profiling.time_allowed import ENDED_AFTER, TimeAllowed
from jcw_latency.stages import ProfileStage

__all__ = ["context", "registry"]

COUNT = 30
"""Networks that run whole."""


class Slow(SyntheticDevice):
    """So noisy that no point is ever certain; each timing takes a second of its own clock, of a network ten."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.noise, self.now, self.longest = 0.5, 0.0, 0.0

    def _take(self, seconds: float) -> None:
        self.now += seconds
        self.longest = max(self.longest, seconds)

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        self._take(rounds * len(problems))
        return super().measure(problems, rounds=rounds)

    def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
        self._take(10 * rounds * len(paths))
        return super().measure_models(paths, rounds=rounds)


@pytest.fixture(autouse=True)
def many_timed_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "_BATCH_SIZE", 24)
    monkeypatch.setattr(network_runs, "_BATCH", 5)


def profiled(
    network: Network, folder: Path, seconds: float | None, spent: float = 0.0, **changes: Any
) -> tuple[Slow, LatencyTable, list[Progress]]:
    """A profile whose time is that of its device."""
    device, told = Slow(), list[Progress]()
    options = quick_options(
        **{"min_rounds": 6, "rounds": 12, "whole_networks": COUNT, "busy": 9.0, **changes}
    )
    table = profile_space(
        SearchSpace.of(network), GuardedDevice(device, options.timeout, TextExporter()), options,
        rng=np.random.default_rng(0), folder=folder, notify=told.append,
        allowed=TimeAllowed(seconds, spent, clock=lambda: device.now),
    )  # fmt: skip
    return device, table, told


def least(network: Network, folder: Path, **changes: Any) -> float:
    """What a profile takes that is over before it begins."""
    return profiled(network, folder, 0.0, **changes)[0].now


def test_a_profile_that_has_the_time_is_as_one_without(network: Network, tmp_path: Path) -> None:
    whole, expected, _ = profiled(network, tmp_path, None, adaptive=True)
    _, table, told = profiled(network, tmp_path, whole.now + 1, adaptive=True)
    assert not [event for event in told if not event.total]
    assert {**table.settings, "seconds": 0} == {**expected.settings, "seconds": 0}
    assert_same_times(table, expected)


def test_full_grids_that_have_the_time_have_all_of_their_points(network: Network, tmp_path: Path) -> None:
    whole, expected, _ = profiled(network, tmp_path, None)
    _, table, told = profiled(network, tmp_path, 2 * whole.now)
    assert not [event for event in told if not event.total]
    assert table.settings["grid"] == "4 widths, 5 densities, even"
    assert [dict(grid.axes) for grid in table.grids] == [dict(grid.axes) for grid in expected.grids]
    assert min(grid.rounds[grid.ms > 0].min() for grid in table.grids) >= 6


def test_full_grids_of_which_no_sweep_fits_are_refined_from_coarse_ones(
    network: Network, tmp_path: Path
) -> None:
    changes = {"widths": 16, "densities": 20}
    shortest, table, told = profiled(network, tmp_path, 0.0, **changes)
    assert table.settings["grid"] == "adaptive"
    assert " points of coarser grids timed 3 times" in told[-1].detail
    seconds = 3 * shortest.now
    device, finer, told = profiled(network, tmp_path, seconds, **changes)
    assert device.now <= seconds + device.longest
    assert finer.settings["points"] > table.settings["points"]
    # Of the full grids not one batch was begun.
    sizes = {event.total for event in told if event.unit == "point"}
    assert max(sizes) < len(make_plan(network, widths=16, densities=20, step=4).problems)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("adaptive", [False, True])
def test_a_profile_ends_in_its_time_with_every_point_timed(
    network: Network, tmp_path: Path, share: float, adaptive: bool
) -> None:
    whole = profiled(network, tmp_path, None, adaptive=adaptive)[0]
    device, table, told = profiled(network, tmp_path, share * whole.now, adaptive=adaptive)
    assert device.now <= max(share * whole.now, least(network, tmp_path, adaptive=adaptive)) + device.longest
    assert device.now < whole.now
    for grid in table.grids:
        assert ((grid.rounds > 0) == (grid.ms > 0)).all()
    assert LatencyPredictor(table, SearchSpace.of(network)).predict(SearchSpace.of(network).maximum[None]) > 0
    (words,) = [event.detail for event in told if not event.total]
    assert words.startswith("ends after its ")
    assert table.settings[ENDED_AFTER] == share * whole.now


@pytest.mark.parametrize(("seconds", "times"), [(0.0, "3 times"), (4e3, r"\d+ to \d+ times")])
def test_the_line_says_what_was_reached(
    network: Network, tmp_path: Path, exported: list[Architecture], seconds: float, times: str
) -> None:
    _, table, told = profiled(network, tmp_path, seconds)
    line = f"ends after its .* with what it has: (.*?)( of coarser grids)? timed ({times}), (\\d+) of {COUNT} networks run whole"
    assert (found := re.fullmatch(line, told[-1].detail)) is not None
    timed = np.concatenate([grid.rounds[grid.ms > 0] for grid in table.grids])
    assert set(map(int, re.findall(r"\d+", found[3]))) == {timed.min(), timed.max()}
    assert found[1] == f"{table.settings['points']} points"
    assert bool(found[2]) == (table.settings["grid"] == "adaptive") == (seconds == 0)
    # With every five runs the network itself.
    assert int(found[4]) == len(exported) * 5 / 6 >= 10


def test_what_interrupted_attempts_took_counts(network: Network, tmp_path: Path) -> None:
    whole = profiled(network, tmp_path, None)[0].now
    half = profiled(network, tmp_path, whole / 2)[0].now
    assert profiled(network, tmp_path, whole, spent=whole / 2)[0].now == half < whole


def test_a_profile_without_networks(network: Network) -> None:
    told = list[Progress]()
    table = profile(
        network, SyntheticDevice(0.5), quick_options(rounds=1000, seconds=1.0),
        rng=np.random.default_rng(0), notify=told.append,
    )  # fmt: skip
    assert table.settings[ENDED_AFTER] == 1.0
    assert "networks" not in told[-1].detail


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ("", None),
        ('run.time = "2 min"', 30.0),
        ("latency.seconds = 7", 7.0),
        ('run.time = "2 min"\nlatency.seconds = 700', 700.0),
    ],
)
def test_a_stage_ends_after_a_share_of_the_runs_time_unless_the_recipe_says_when(
    registry: Registry, network: Network, tmp_path: Path, more: str, seconds: float | None
) -> None:
    stage = ProfileStage()
    run = context_of(registry, network, tmp_path, f'network = {{ file = "net.json" }}\n{more}', latency="")
    assert stage.ends_after(run) == seconds
    assert ("ends after" in stage.plan(run)) == (seconds is not None)


def test_a_stage_that_went_on_ends_when_all_attempts_took_its_time(context: Context) -> None:
    object.__setattr__(context.recipe.run, "time", "1 h")
    object.__setattr__(context.recipe.device.options, "noise", 0.5)  # type: ignore[union-attr]
    (context.scratch("profile") / "seconds").write_text("900")
    told = list[Progress]()
    context.registry.progress = told.append  # type: ignore[method-assign]
    ProfileStage().run(context)
    assert any(event.detail.startswith("ends after its 15 min 0 s with what it has") for event in told)
    assert "--set latency.seconds=1800`" in told[-1].detail


@pytest.mark.parametrize("ended", ["soon", -3.0, float("nan"), None])
def test_a_table_that_says_nonsense_of_its_end_is_judged_without(
    network: Network, tmp_path: Path, ended: Any
) -> None:
    table = profiled(network, tmp_path, 30.0)[1]
    assert "seconds=60`" in judge(table, again="jcw ").remedy
    object.__setattr__(table, "settings", {**table.settings, ENDED_AFTER: ended})
    assert "seconds=" not in judge(table, again="jcw ").remedy
