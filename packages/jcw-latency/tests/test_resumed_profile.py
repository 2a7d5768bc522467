"""Resumed profiles: what was timed is not timed again, and the table is the same as of one that was not interrupted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from latency_samples import Plugin, SyntheticDevice, TextExporter, assert_same_times, measured, quick_options
from numpy.typing import NDArray

from jcw_core.cli.main import build
from jcw_core.errors import DeviceError, NetworkError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.problem import LayerProblem
from jcw_core.registry import Registry
from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyTable, profile_space
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.profiling import networks as network_runs
from jcw_latency.profiling import reference
from jcw_latency.profiling.checkpoint import ProfileCheckpoint
from jcw_latency.profiling.progress import Notify, ignore


class Mortal(SyntheticDevice):
    """Bent, so that grids are refined. Counts timings of layers and networks, those of references left out.

    Args: lives: timings after which it dies.
    """

    lives: float = np.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        self.layers = self.networks = 0
        self.pages = ""

    def _live(self) -> None:
        if self.layers + self.networks >= self.lives:
            raise KeyboardInterrupt

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        self._live()
        self.layers += rounds * (len(problems) - 1)
        self.pages += "l"
        bend = [1 + 0.5 * np.sin(5 * p.density) for p in problems]
        return super().measure(problems, rounds=rounds) * bend + 1e-6

    def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
        self._live()
        self.networks += rounds * (len(paths) - 1)
        self.pages += "n"
        return super().measure_models(paths, rounds=rounds)

    @property
    def timings(self) -> int:
        return self.layers + self.networks


def three_layers(width: int = 48, classes: int = 3) -> Network:
    net = NetworkBuilder("three", (16, 8, 8))
    net.conv("conv1", width, 3)
    net.conv("conv2", 40, 3)
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", classes)
    return net.build()


@pytest.fixture
def network() -> Network:
    return three_layers()


@pytest.fixture(autouse=True)
def many_timed_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "_BATCH_SIZE", 12)
    monkeypatch.setattr(network_runs, "_BATCH", 2)


Profile = Callable[..., LatencyTable]


@pytest.fixture
def profiled(tmp_path: Path) -> Profile:
    """Profiles a network with 12 whole runs, of which a visit of 2 comes after the layers, through a partial file."""

    def profiled(network: Network, device: Mortal, notify: Notify = ignore, **changes: Any) -> LatencyTable:
        options = quick_options(**{"min_rounds": 4, "rounds": 4, "whole_networks": 12, **changes})
        return profile_space(
            SearchSpace.of(network), GuardedDevice(device, options.timeout, TextExporter()), options,
            rng=np.random.default_rng(0), folder=tmp_path / "models", checkpoint=tmp_path / "partial", notify=notify,
        )  # fmt: skip

    (tmp_path / "models").mkdir()
    return profiled


def interrupted(profiled: Profile, network: Network, lives: float, **changes: Any) -> Mortal:
    device = Mortal()
    device.lives = lives
    with pytest.raises(KeyboardInterrupt):
        profiled(network, device, **changes)
    return device


def uninterrupted(
    profiled: Profile, network: Network, tmp_path: Path, **changes: Any
) -> tuple[Mortal, LatencyTable]:
    device = Mortal()
    table = profiled(network, device, **changes)
    ProfileCheckpoint(tmp_path / "partial", table.device, network).remove()
    assert not (tmp_path / "partial").exists()
    return device, table


def assert_same(one: LatencyTable, other: LatencyTable) -> None:
    assert_same_times(one, other)
    assert [dict(grid.axes) for grid in one.grids] == [dict(grid.axes) for grid in other.grids]
    assert dict(one.end_to_end) == dict(other.end_to_end)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("adaptive", [False, True])
def test_resumed_profile_times_nothing_twice(
    network: Network, profiled: Profile, tmp_path: Path, adaptive: bool, share: float
) -> None:
    changes = {"adaptive": adaptive, "adaptive_tolerance": 0.02}
    whole, expected = uninterrupted(profiled, network, tmp_path, **changes)
    last_visit = 2 * 5
    first = interrupted(profiled, network, share * (whole.timings - last_visit), **changes)
    second = Mortal()
    table = profiled(network, second, **changes)
    assert second.timings > 0
    assert first.layers + second.layers == whole.layers
    assert first.networks + second.networks == whole.networks
    assert_same(table, expected)


def test_profile_resumed_five_times(network: Network, profiled: Profile, tmp_path: Path) -> None:
    whole, expected = uninterrupted(profiled, network, tmp_path)
    parts = [interrupted(profiled, network, 0.15 * whole.timings) for _ in range(5)]
    parts.append(Mortal())
    table = profiled(network, parts[-1])
    assert sum(part.timings for part in parts) == whole.timings
    assert_same(table, expected)


def test_a_profile_of_another_network_in_between(network: Network, profiled: Profile, tmp_path: Path) -> None:
    other = replace(three_layers(width=32), name="other")
    whole, expected = uninterrupted(profiled, network, tmp_path)
    first = interrupted(profiled, network, 0.9 * whole.timings)
    interrupted(profiled, other, 0.1 * whole.timings)
    table = profiled(other, Mortal())
    ProfileCheckpoint(tmp_path / "partial", table.device, other).remove()
    second = Mortal()
    assert_same(profiled(network, second), expected)
    assert first.timings + second.timings == whole.timings


def test_another_device_in_between(network: Network, profiled: Profile, tmp_path: Path) -> None:
    whole, expected = uninterrupted(profiled, network, tmp_path)
    first = interrupted(profiled, network, 0.9 * whole.timings)
    other, elsewhere = replace(Mortal().describe(), threads=2), Mortal()
    elsewhere.describe = lambda: other  # type: ignore[method-assign]
    profiled(network, elsewhere)
    assert elsewhere.timings == whole.timings
    second = Mortal()
    assert_same(profiled(network, second), expected)
    assert first.timings + second.timings == whole.timings


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": 9},
        {"rounds": 3, "min_rounds": 3},
        {"widths": 2},
        {"adaptive": True},
        {"whole_networks": 0},
        {"check_rounds": 4},
        {"check_rounds": 40},
    ],
)
def test_other_options_in_between(
    network: Network, profiled: Profile, tmp_path: Path, changes: dict[str, Any]
) -> None:
    whole, expected = uninterrupted(profiled, network, tmp_path)
    first = interrupted(profiled, network, 0.9 * whole.timings)
    between = Mortal()
    profiled(network, between, **changes)
    second = Mortal()
    assert_same(profiled(network, second), expected)
    assert second.timings <= whole.timings - first.timings


def test_resumed_profile_adds_rounds(network: Network, profiled: Profile) -> None:
    parts = Mortal(), Mortal()
    for part, rounds in zip(parts, (4, 6), strict=True):
        profiled(network, part, min_rounds=rounds, rounds=rounds, check_rounds=4 * rounds)
    assert parts[1].networks == parts[0].networks * 2 / 4
    assert parts[1].layers == parts[0].layers * 2 / 4


def test_resumed_profile_spreads_the_end_to_end_runs_that_are_left(
    network: Network, profiled: Profile, tmp_path: Path
) -> None:
    layers = uninterrupted(profiled, network, tmp_path, whole_networks=0)[0]
    interrupted(profiled, network, layers.timings / 2, whole_networks=0)
    second = Mortal()
    profiled(network, second)
    *blocks, last = [page.count("n") for page in second.pages.split("l")]
    assert max(blocks) == 1
    assert (sum(blocks), last) == (5, 1)


def test_resumed_profile_repeats_disturbed_batches(
    network: Network, profiled: Profile, tmp_path: Path
) -> None:
    class Disturbed(Mortal):
        def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
            return super().measure_models(paths, rounds=rounds) * (3 if self.pages.count("n") == 2 else 1)

    whole, expected = uninterrupted(profiled, network, tmp_path)
    visit = 2 * 5
    first, second = Disturbed(), Mortal()
    first.lives = whole.timings - visit
    with pytest.raises(KeyboardInterrupt):
        profiled(network, first)
    assert_same(profiled(network, second), expected)
    assert second.timings == 2 * visit


@pytest.mark.parametrize(
    ("what", "message"), [("measure", "time linear"), ("measure_models", "time a random")]
)
def test_resumed_profile_retries_failed_timings(
    network: Network, profiled: Profile, what: str, message: str
) -> None:
    ailing, healthy = Mortal(), Mortal()
    measure = getattr(ailing, what)

    def fails(things: Sequence[Any], *, rounds: int) -> NDArray[np.float64]:
        failed = [what == "measure_models" or thing.op == "linear" for thing in things]
        return np.where(failed, np.nan, measure(things, rounds=rounds))

    setattr(ailing, what, fails)
    with pytest.raises(DeviceError, match=message):
        profiled(network, ailing, min_rounds=1, rounds=1)
    table = profiled(network, healthy, min_rounds=1, rounds=1)
    assert 0 < healthy.timings < ailing.timings
    assert all(grid.ms.flat[-1] > 0 for grid in table.grids)


def told(profiled: Profile, network: Network, device: Mortal) -> str:
    lines: list[str] = []
    profiled(network, device, notify=lambda event: event.total == 0 and lines.append(event.detail))
    return "".join(lines)


def test_profile_says_what_its_checkpoint_is_used_for(
    network: Network, profiled: Profile, tmp_path: Path
) -> None:
    whole, table = uninterrupted(profiled, network, tmp_path)
    assert told(profiled, network, Mortal()) == ""
    points = table.settings["points"]
    said = f"{tmp_path / 'partial'}: goes on from {points} points and 12 network runs of an earlier profile"
    assert told(profiled, network, Mortal()) == said
    newer, engine = Mortal(), replace(Mortal().describe(), versions={"formula": "2"})
    newer.describe = lambda: engine  # type: ignore[method-assign]
    assert "another engine version" in told(profiled, network, newer)
    assert "another network" in told(profiled, replace(network, name="other"), Mortal())
    (tmp_path / "partial").write_bytes((tmp_path / "partial").read_bytes()[:-30])
    again = Mortal()
    assert told(profiled, network, again).endswith("; it is not used")
    assert again.timings == whole.timings


def test_layers_that_networks_have_in_common_are_timed_once(network: Network, profiled: Profile) -> None:
    first, second = Mortal(), Mortal()
    other = three_layers(classes=9)
    profiled(network, first)
    table = profiled(other, second)
    assert {problem.op for problem in second.timed} == {"linear"}
    assert_same_times(table, measured(other, Mortal(), min_rounds=4))


def test_profile_command_says_that_it_continues(network: Network, profiled: Profile, tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text(network.to_json())
    interrupted(profiled, network, 100)
    (tmp_path / "partial").rename(tmp_path / "t.npz.partial")
    arguments = [
        "profile",
        str(tmp_path / "net.json"),
        "--device",
        "synthetic",
        "-o",
        str(tmp_path / "t.npz"),
    ]
    done = CliRunner().invoke(build(Registry({"synthetic": Plugin()})), arguments, catch_exceptions=False)
    assert "t.npz.partial: goes on from" in done.output.replace("\n", "")
    assert not (tmp_path / "t.npz.partial").exists()


@pytest.mark.parametrize("whole", [False, True])
def test_a_network_without_layers(whole: bool, profiled: Profile, tmp_path: Path) -> None:
    network = NetworkBuilder("nothing", (3, 8, 8)).build()
    make = profiled if whole else measured
    with pytest.raises(NetworkError, match="nothing: no layer between input and output"):
        make(network, Mortal())
    assert not (tmp_path / "partial").exists()
