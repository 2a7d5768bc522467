"""GFLOP/s of the tile loop, which layers are compared with, measured when the processor's clock has risen."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from jcw_core.protocols import Precision
from jcw_kernels._engine import peak_gflops as measure_gflops

_SETTLED = 20
"""Measurements in a row that are no faster than what was seen before: a clock rises for some tenths of a second."""
_MOST = 500
_SECONDS = 2.0
"""Of all measurements: where a single one takes tenths of a second, as under emulation, no clock is waited for."""
_RISE = 1.01
"""What counts as faster."""


def peak_gflops(isa: str = "", precision: Precision = "float32") -> float:
    """GFLOP/s of the tile loop with its data in L1 cache, on a warm processor; takes up to two seconds.

    Args:
        isa: an instruction set; ``""`` takes what ``JCW_ISA`` names or else the best that runs here.
        precision: what the loop computes in, by the fastest instructions that the processor has for it beside ``isa``.
    """
    return settled(lambda: measure_gflops(isa, precision))


def settled(measure: Callable[[], float]) -> float:
    """The largest of as many measurements as it takes until they rise no more, or there is no more time."""
    end = perf_counter() + _SECONDS
    best = level = measure()
    since = 0
    for _ in range(_MOST):
        if since == _SETTLED or perf_counter() > end:
            break
        best = max(best, measure())
        since += 1
        if best > level * _RISE:
            level, since = best, 0
    return best
