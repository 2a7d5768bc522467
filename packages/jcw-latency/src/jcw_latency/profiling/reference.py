"""Timed batches: a few rounds of some points, with a reference layer that tells when the machine was busy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.operations import LAYERS
from jcw_core.network.problem import LayerProblem
from jcw_latency.devices.guarded import GuardedDevice

_BATCH_BYTES = 64 * 2**20
_BATCH_SIZE = 256

Indices = NDArray[np.intp]


def batches(order: Indices, problems: Sequence[LayerProblem]) -> Iterator[Indices]:
    """Runs of ``order`` that fit in memory together."""
    start, size = 0, 0
    for stop, index in enumerate(order):
        size += _bytes(problems[index])
        if stop > start and (size > _BATCH_BYTES or stop - start >= _BATCH_SIZE):
            yield order[start:stop]
            start, size = stop, _bytes(problems[index])
    yield order[start:]


def _bytes(p: LayerProblem) -> int:
    taps = p.in_channels // p.groups * p.kernel_size[0] * p.kernel_size[1]
    weights = p.out_channels * taps if p.op in LAYERS else 0
    outputs = p.out_channels * p.out_height * p.out_width * (2 if p.residual else 1)
    own = 4 * (weights + outputs + p.in_channels * p.in_height * p.in_width)
    return own + (_bytes(p.then) if p.then else 0)


class Reference:
    """One layer that is timed with every batch: what changes its time is the machine, not the layer.

    Args:
        problems: full-size layers of the network; the one in the middle by work is taken.
        tolerance: share above the usual time at which a batch counts as disturbed.
    """

    def __init__(self, problems: Sequence[LayerProblem], tolerance: float) -> None:
        self.problem = sorted(problems, key=lambda p: p.macs)[len(problems) // 2]
        self.times: list[float] = []
        self.disturbed = 0
        self._tolerance = tolerance

    def time_with(
        self, device: GuardedDevice, problems: Sequence[LayerProblem], rounds: int
    ) -> NDArray[np.float64]:
        """Time the reference and ``problems`` together; seconds (rounds, len(problems))."""
        seconds = device.measure([self.problem, *problems], rounds)
        timed = seconds[np.isfinite(seconds[:, 0]), 0]
        # A device that cannot time the reference will say so of the layer itself.
        self.times.append(float(np.median(timed)) if timed.size else self.usual)
        return seconds[:, 1:]

    @property
    def usual(self) -> float:
        """Lower quartile over all batches so far, seconds: what an idle machine takes."""
        return float(np.quantile(self.times, 0.25)) if self.times else 0.0

    @property
    def is_disturbed(self) -> bool:
        """True when the last batch fell into a moment in which the machine was slower than usual."""
        return self.times[-1] > (1 + self._tolerance) * self.usual

    @property
    def drift(self) -> float:
        """How much slower the slowest batches were than the fastest, as a share; a twentieth is left out of each."""
        if not self.times:
            return 0.0
        fast, slow = np.quantile(self.times, [0.05, 0.95])
        return float(slow / fast) - 1 if fast else 0.0
