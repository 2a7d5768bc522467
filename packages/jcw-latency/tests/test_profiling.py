"""Profiles: which points are timed and how often, what noise does, and devices that misbehave."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from latency_samples import SyntheticDevice, assert_same_times, measured, seconds_of
from numpy.typing import NDArray

from jcw_core.errors import DeviceError, RecipeError
from jcw_core.network.graph import Network
from jcw_core.network.problem import LayerProblem
from jcw_latency import LatencyOptions
from jcw_latency.profiling import reference
from jcw_latency.profiling.samples import Samples
from jcw_latency.table.axes import layer_at


def test_without_noise_every_point_is_timed_the_least_number_of_times(network: Network) -> None:
    device = SyntheticDevice()
    table = measured(network, device, min_rounds=3)
    assert set(Counter(device.timed).values()) == {1}
    for grid in table.grids:
        timed = grid.ms > 0
        assert (grid.rounds[timed] == 3).all()
        assert (grid.rounds[~timed] == 0).all()
        assert (grid.spread_ms == 0).all()


def test_noisy_points_get_more_rounds(network: Network) -> None:
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
        seen = Counter(self.timed)
        times = super().measure(problems, rounds=rounds)
        dented = [p.density == 1 and p.op == "conv2d" and not seen[p] for p in problems]
        return np.where(dented, 0.3 * times, times)


def test_broken_monotonicity_is_measured_again(network: Network) -> None:
    device = Dented()
    table = measured(network, device, min_rounds=3, rounds=12)
    exact = measured(network, SyntheticDevice())
    again = [p for p, count in Counter(device.timed).items() if count > 1]
    assert again
    assert len(again) < len(set(device.timed)) / 2
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
        2e3 * seconds_of(layer_at(stem.problem, {"out": 8}))
    )


class Slowing(SyntheticDevice):
    """Args: slow: calls, counted from 0, at which everything takes twice as long."""

    slow: Sequence[int] = ()
    calls = -1

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        self.calls += 1
        return super().measure(problems, rounds=rounds) * (2 if self.calls in self.slow else 1)


def test_timed_batches_on_a_busy_machine_are_repeated(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_BATCH_SIZE", 20)
    device = Slowing()
    device.slow = range(5, 8)
    table = measured(network, device, min_rounds=3, rounds=3)
    assert table.settings["disturbed_visits"] == 3
    assert_same_times(table, measured(network, SyntheticDevice()))


def test_a_machine_that_stays_busy_is_measured_all_the_same(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_BATCH_SIZE", 20)
    device = Slowing()
    device.slow = range(5, 1000)
    table = measured(network, device, min_rounds=3, rounds=3)
    assert table.settings["drift"] == pytest.approx(1.0)
    assert table.settings["disturbed_visits"] < 20


@pytest.mark.parametrize("answer", ["fewer", "flat", "more"])
def test_results_of_the_wrong_shape_are_refused(network: Network, answer: str) -> None:
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
def test_invalid_times_cost_a_round(network: Network, value: float) -> None:
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


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 9), st.integers(1, 4)),
        elements=st.floats(0.1, 9) | st.just(np.nan),
    )
)
def test_quartiles_leave_out_what_failed(seconds: NDArray[np.float64]) -> None:
    samples = Samples(0, rounds=1)
    samples.seconds = seconds
    for found, column in zip(samples.quantiles().T, seconds.T, strict=True):
        timed = column[np.isfinite(column)]
        expected = np.quantile(timed, [0.25, 0.5, 0.75]) if timed.size else np.full(3, np.nan)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("rounds", "share"), [(6, 0.79), (12, 0.85), (30, 0.89)])
def test_how_often_a_confidence_interval_holds_the_true_median(rounds: int, share: float) -> None:
    samples = Samples(20_000, rounds)
    samples.add(np.arange(20_000), np.random.default_rng(0).standard_normal((rounds, 20_000)))
    holds = np.abs(samples.quantiles()[1]) <= samples.half_widths()
    assert holds.mean() == pytest.approx(share, abs=0.01)


def test_impossible_options() -> None:
    with pytest.raises(RecipeError, match="below min_rounds"):
        LatencyOptions(rounds=2, min_rounds=3)
