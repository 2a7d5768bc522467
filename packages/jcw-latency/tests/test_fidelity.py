"""Fidelity checks: their statistics, the end-to-end fit, and networks on a device whose times are a formula."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from latency_samples import SyntheticDevice, TextExporter, network_seconds
from numpy.typing import NDArray
from scipy.stats import kendalltau

from jcw_core.backbones.resnet import resnet18
from jcw_core.errors import DeviceError
from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.problem import LayerProblem
from jcw_core.network.shrink import kept_macs, shrink
from jcw_core.network.weight_groups import weight_density
from jcw_core.protocols import Calibration
from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyOptions, LatencyPredictor, LatencyTable
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.fidelity.check import Fidelity, Point, check, kendall_tau, machine
from jcw_latency.fidelity.report_section import FidelitySection
from jcw_latency.fidelity.verdict import Verdict
from jcw_latency.profiling import network_timing, reference
from jcw_latency.profiling.network_timing import medians_ms, random_model
from jcw_latency.profiling.profile import profile_space
from jcw_latency.table.end_to_end import EndToEndFit, fit_end_to_end


class Rounder(SyntheticDevice):
    """A device that times layers in int8."""

    precision = "int8"


class Elder(Rounder):
    """One whose processor has no dot products of bytes."""

    products = "pairs"


class Halver(SyntheticDevice):
    """A device that times layers in float16."""

    precision = "float16"


class RoundingExporter(TextExporter):
    """Tells what it was given to choose numbers by, or that it was asked for half precision."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def in_half_precision(self) -> TextExporter:
        self.seen.append("float16")
        return TextExporter()

    def calibrated(self, images: NDArray[np.float32], how: Calibration | None = None) -> TextExporter:
        assert how is not None
        self.seen += [images.shape, how.products]
        return TextExporter()


@pytest.mark.parametrize(
    ("device", "seen"),
    [
        (SyntheticDevice(), []),
        (Rounder(), [(2, 3, 32, 32), "bytes"]),
        (Elder(), [(2, 3, 32, 32), "pairs"]),
        (Halver(), ["float16"]),
    ],
)
def test_networks_compute_in_the_precision_that_layers_are_timed_in(
    device: SyntheticDevice, seen: list[Any], tmp_path: Path
) -> None:
    network = resnet18(num_classes=4, width=0.125, input_size=32)
    space = SearchSpace.of(network)
    exporter = RoundingExporter()
    guarded = GuardedDevice(device, 10.0, exporter)
    chosen = [space.architecture(space.maximum)]
    seconds = network_timing.network_seconds(network, chosen, guarded, 2, np.random.default_rng(0), tmp_path)
    assert seconds.shape == (2, 1)
    assert exporter.seen == seen


@given(
    st.integers(2, 30).flatmap(lambda n: st.tuples(*[arrays(np.float64, n, elements=st.integers(0, 9))] * 2))
)
def test_kendalls_tau_is_scipys(samples: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
    expected = kendalltau(*samples).statistic
    if np.isnan(expected):
        assert kendall_tau(*samples) == 1.0
    else:
        assert kendall_tau(*samples) == pytest.approx(expected, abs=1e-12)


def test_mape_bias_and_tau_of_three_networks() -> None:
    found = Fidelity((Point(1.1, 1.0, 10), Point(1.8, 2.0, 30), Point(3.0, 3.0, 20))).to_dict()
    assert found["mape"] == pytest.approx(0.2 / 3)
    assert found["max_error"] == pytest.approx(0.1)
    assert found["bias"] == pytest.approx(0.0)
    assert found["kendall_tau"] == 1.0
    assert found["macs_kendall_tau"] == pytest.approx(1 / 3)
    assert found["networks"] == 3
    assert found["points"][1] == {"predicted_ms": 1.8, "measured_ms": 2.0, "macs": 30}


def test_medians_leave_out_rounds_that_failed() -> None:
    seconds = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(medians_ms(seconds), [2000.0, np.nan])


def guarded(device: SyntheticDevice) -> GuardedDevice:
    return GuardedDevice.of(device, 60, {"text": TextExporter()})


def check_on(device: SyntheticDevice, table: LatencyTable, space: SearchSpace, folder: Path) -> Fidelity:
    rng = np.random.default_rng(0)
    return check(
        LatencyPredictor(table, space),
        guarded(device),
        space.sample(23, rng),
        rounds=3,
        rng=rng,
        folder=folder,
    )


def test_predictions_agree_with_networks_that_run_end_to_end(
    table: LatencyTable, space: SearchSpace, tmp_path: Path
) -> None:
    found = check_on(SyntheticDevice(), table, space, tmp_path).to_dict()
    # What is left comes from densities that small layers round.
    assert 0 < found["mape"] < 0.01
    assert found["kendall_tau"] > 0.97
    assert (found["networks"], found["method"], found["slowdown"]) == (23, "networks", None)
    assert not list(tmp_path.iterdir())


def test_an_overhead_per_run_shows_as_bias(table: LatencyTable, space: SearchSpace, tmp_path: Path) -> None:
    found = check_on(SyntheticDevice(overhead=1.0), table, space, tmp_path)
    assert (found.errors < -0.5).all()


def profiled(device: SyntheticDevice, space: SearchSpace, folder: Path, **options: int) -> LatencyTable:
    rng = np.random.default_rng(0)
    return profile_space(space, guarded(device), LatencyOptions(**options), rng=rng, folder=folder)


def test_profile_fits_the_overhead_of_end_to_end_runs(space: SearchSpace, tmp_path: Path) -> None:
    device = SyntheticDevice(overhead=1e-4)
    table = profiled(device, space, tmp_path)
    assert table.end_to_end["small"].overhead_ms == pytest.approx(0.1, rel=0.03)
    assert table.end_to_end["small"].scale == pytest.approx(1, rel=0.03)
    assert check_on(device, table, space, tmp_path).to_dict()["mape"] < 0.01
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_end_to_end_fit_of_one_to_three_networks(count: int, space: SearchSpace, tmp_path: Path) -> None:
    device = SyntheticDevice(overhead=1e-4)
    table = profiled(device, space, tmp_path, whole_networks=count)
    smallest = space.architecture(space.low)
    layers_ms = 1e3 * network_seconds(shrink(space.network, smallest), dict(smallest.densities))
    predicted = LatencyPredictor(table, space).predict(space.low[None])
    assert predicted == pytest.approx(layers_ms + 0.1, rel=0.02)


def test_no_end_to_end_fit_without_end_to_end_runs(space: SearchSpace, tmp_path: Path) -> None:
    assert not profiled(SyntheticDevice(), space, tmp_path, whole_networks=0).end_to_end
    assert not profiled(SyntheticDevice(model_format=""), space, tmp_path).end_to_end


def test_end_to_end_runs_are_spread_between_timed_batches(space: SearchSpace, tmp_path: Path) -> None:
    class Diary(SyntheticDevice):
        def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
            pages.append("layers")
            return super().measure(problems, rounds=rounds)

        def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
            pages.append("networks")
            return super().measure_models(paths, rounds=rounds)

    pages: list[str] = []
    profiled(Diary(), space, tmp_path)
    turns = [page for page, _ in itertools.groupby(pages)]
    assert turns[0] == "layers"
    assert turns[-1] == "networks"
    assert len(turns) >= 6


class Drifting(SyntheticDevice):
    """A machine that runs at one speed for a while and then at another, whatever it is asked for."""

    calls = 0

    @property
    def speed(self) -> float:
        self.calls += 1
        return 1.0 + 0.1 * (self.calls // 6 % 2)

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        return super().measure(problems, rounds=rounds) * self.speed

    def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
        return super().measure_models(paths, rounds=rounds) * self.speed


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_drifting_machine_does_not_bias_the_end_to_end_fit(
    adaptive: bool, space: SearchSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_BATCH_SIZE", 20)
    table = profiled(Drifting(overhead=1e-4), space, tmp_path, adaptive=adaptive)
    found = check_on(SyntheticDevice(overhead=1e-4), table, space, tmp_path)
    # Half of the time it took a tenth longer.
    assert found.errors.mean() == pytest.approx(0.05, abs=0.03)
    assert (found.errors > -0.02).all()
    assert (found.errors < 0.12).all()


def test_end_to_end_runs_on_a_busy_machine_are_repeated(
    table: LatencyTable, space: SearchSpace, tmp_path: Path
) -> None:
    class Disturbed(SyntheticDevice):
        def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
            calls.append(len(paths))
            slow = 3 if len(calls) in busy else 1
            return super().measure_models(paths, rounds=rounds) * slow

    calls: list[int] = []
    # Three batches, and so three calls, in each of three passes.
    busy = range(2, 5)
    found = check_on(Disturbed(), table, space, tmp_path).to_dict()
    assert len(calls) == 9 + 3
    undisturbed = check_on(SyntheticDevice(), table, space, tmp_path).to_dict()
    assert found["max_error"] == undisturbed["max_error"] < 0.03
    calls.clear()
    busy = range(4, 99)
    assert check_on(Disturbed(), table, space, tmp_path).to_dict()["bias"] < -0.5
    assert len(calls) == 9 + 3


@pytest.mark.parametrize("model_format", ["text", ""])
def test_slowdown_of_the_machine_since_the_profile(
    model_format: str, space: SearchSpace, tmp_path: Path
) -> None:
    class Slower(SyntheticDevice):
        def _noisy(self, exact: Sequence[float], rounds: int) -> NDArray[np.float64]:
            return 1.25 * super()._noisy(exact, rounds)

    table = profiled(SyntheticDevice(model_format=model_format), space, tmp_path)
    found = check_on(Slower(model_format=model_format), table, space, tmp_path)
    assert found.slowdown == pytest.approx(0.25, rel=1e-6)
    assert found.to_dict()["bias"] == pytest.approx(1 / 1.25 - 1, abs=0.01)
    assert "slower" in machine(0.25)
    assert "faster" in machine(-0.25)


# Of the smallest network below, 0.1 ms of layers, a run takes some time.
curves = st.tuples(st.floats(0.6, 3), st.floats(-0.05, 2), st.floats(0, 0.5))


@given(st.lists(st.floats(0.1, 10), min_size=12, max_size=40, unique=True), curves)
def test_end_to_end_fit_recovers_any_curve(sums: list[float], curve: tuple[float, float, float]) -> None:
    x, true = np.array([*sums, 0.1, 5.0, 10.0]), EndToEndFit(*curve)
    np.testing.assert_allclose(fit_end_to_end(x, true.of(x)).of(x), true.of(x), rtol=1e-4)


def test_end_to_end_fit_withstands_outliers() -> None:
    rng, true = np.random.default_rng(0), EndToEndFit(1.1, 0.1, 0.05)
    sums = rng.uniform(0.5, 3, 80)
    measured = true.of(sums) * np.exp(0.01 * rng.standard_normal(80))
    measured[:8] *= 2
    np.testing.assert_allclose(fit_end_to_end(sums, measured).of(sums), true.of(sums), rtol=0.015)


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=1, max_size=20))
def test_end_to_end_fit_rises_with_the_sum_of_layers(pairs: list[tuple[float, float]]) -> None:
    sums, measured = np.array(pairs).T
    found = fit_end_to_end(sums, measured)
    assert (np.diff(found.of(np.sort(sums))) >= 0).all()


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=1, max_size=20))
def test_end_to_end_fit_is_proportional_below_the_smallest_run(pairs: list[tuple[float, float]]) -> None:
    sums, measured = np.array(pairs).T
    found, smallest = fit_end_to_end(sums, measured), sums.min()
    least = found.overhead_ms + found.scale * smallest + found.quadratic * smallest**2
    assert least > 0
    below = np.linspace(0, smallest, 9)
    np.testing.assert_allclose(found.of(below), least * below / smallest, rtol=1e-9)
    np.testing.assert_allclose(found.sums(found.of(below)), below, rtol=1e-9)


def test_predictions_stay_positive_with_a_negative_overhead(space: SearchSpace, tmp_path: Path) -> None:
    layers_ms = 1e3 * network_seconds(
        shrink(space.network, smallest := space.architecture(space.low)), dict(smallest.densities)
    )
    table = profiled(SyntheticDevice(overhead=-0.5e-3 * layers_ms), space, tmp_path)
    assert table.end_to_end["small"].smallest_ms == pytest.approx(layers_ms, rel=0.02)
    assert table.end_to_end["small"].overhead_ms < 0
    every = SearchSpace.of(space.network, step=1)
    least = np.array([[1.0 if v.kind == "width" else 0.01 for v in every.variables]])
    predicted = LatencyPredictor(table, every).predict(least)
    sums = LatencyPredictor(replace(table, end_to_end={}), every).predict(least)
    assert predicted == pytest.approx(0.5 * sums, rel=0.05)


def test_check_times_layers_where_the_device_runs_no_models(
    table: LatencyTable, space: SearchSpace, tmp_path: Path
) -> None:
    found = check_on(SyntheticDevice(model_format=""), table, space, tmp_path).to_dict()
    assert found["mape"] < 0.01
    assert found["method"] == "layers"
    assert found["slowdown"] == pytest.approx(0, abs=1e-12)


def test_check_refuses_networks_that_were_never_timed(
    table: LatencyTable, space: SearchSpace, tmp_path: Path
) -> None:
    class Silent(SyntheticDevice):
        def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
            return np.full((rounds, len(paths)), np.nan)

    with pytest.raises(DeviceError, match="could not time a random small"):
        check_on(Silent(), table, space, tmp_path)
    assert not list(tmp_path.iterdir())


def test_random_models_are_pruned_as_asked(network: Network, space: SearchSpace) -> None:
    rng = np.random.default_rng(7)
    architecture = space.architecture(space.sample(1, rng)[0])
    model = random_model(network, architecture, rng)
    for layer, density in architecture.densities.items():
        found = weight_density(model.weights[f"{layer}.weight"])
        assert found == pytest.approx(density, abs=0.51 / model.weights[f"{layer}.weight"].size * 4)
    kept = sum(
        problem_of(model.network, u, architecture.densities.get(u.name, 1.0)).macs
        for u in fuse(model.network)
    )
    assert kept_macs(network, architecture) == round(kept)


def test_report_section_draws_two_plots(table: LatencyTable, space: SearchSpace, tmp_path: Path) -> None:
    found = check_on(SyntheticDevice(), table, space, tmp_path).to_dict()
    html = FidelitySection().html(found)
    assert html.count("<svg") == 2
    assert html.count("<circle") == 46
    assert f"{found['mape']:.1%}" in html
    assert "…" not in html


def test_a_command_in_the_verdict_is_shown_as_one(
    table: LatencyTable, space: SearchSpace, tmp_path: Path
) -> None:
    found = check_on(SyntheticDevice(), table, space, tmp_path).to_dict()
    verdict = Verdict("doubtful", ("a <layer> varied",), "`jcw run recipe.toml` profiles it again")
    html = FidelitySection().html({**found, "verdict": verdict.to_dict()})
    assert "a &lt;layer&gt; varied" in html
    assert "<code>jcw run recipe.toml</code> profiles it again" in html
