"""The tile loop's rate is that of a processor whose clock has risen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat

import numpy as np
import pytest

from jcw_core.protocols import Precision
from jcw_kernels import available_isas, peak, peak_gflops
from jcw_kernels.peak import settled


def readings(values: Iterator[float]) -> Callable[[], float]:
    return lambda: float(next(values))


@pytest.mark.parametrize("seconds", [1, 5, 60, 300])
def test_a_rising_clock_is_waited_for(seconds: int, rng: np.random.Generator) -> None:
    """From 59 to 102, as a machine was seen to do it, with the scatter of measurements."""
    noise = 1 - 0.2 * rng.random(1000) ** 4
    clock = chain(np.linspace(59, 102, seconds), repeat(102.0))
    found = settled(readings(c * n for c, n in zip(clock, chain(noise, repeat(1.0)), strict=False)))
    assert 100 < found <= 102


def test_a_clock_that_waits_before_it_rises() -> None:
    assert settled(readings(chain(repeat(59.0, 15), repeat(102.0)))) == 102


def test_it_ends_where_a_rate_never_settles() -> None:
    assert settled(readings(1.02**i for i in range(10_000))) > 0


def test_slow_measurements_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(1000))
    monkeypatch.setattr(peak, "perf_counter", lambda: next(seconds))  # one for each measurement
    clock = chain([59.0, 60.0, 61.0], repeat(102.0))
    assert 59 < settled(readings(clock)) < 102


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_rates_of_this_machine(precision: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak, "_SECONDS", 0.2)
    rates = {isa: peak_gflops(isa, precision) for isa in available_isas()}
    assert min(rates.values()) > 0
