"""``WholeRun``: what a run of a whole network costs, given the sum of its layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import FormatError


@dataclass(frozen=True, slots=True)
class WholeRun:
    """What a run of a whole network costs, given the sum of its layers: overhead + scale * sum + bend * sum^2.

    Below the smallest sum that ran, where a negative overhead would end in negative times, it is in proportion.

    Args:
        scale: layers in a network find caches colder than a layer that is timed alone; above 0.
        overhead_ms: what does not depend on the layers.
        bend: per millisecond; above 0 where small networks stay in caches that large ones do not fit into.
        reference_ms: what the network itself, with nothing pruned, took between the layers; 0 if it did not run.
        smallest_ms: the smallest sum of layers among the networks that ran; 0 if that is not known.

    Raises:
        FormatError: a value out of range.
    """

    scale: float = 1.0
    overhead_ms: float = 0.0
    bend: float = 0.0
    reference_ms: float = 0.0
    smallest_ms: float = 0.0

    def __post_init__(self) -> None:
        rising = 0 < self.scale < np.inf and 0 <= self.bend < np.inf
        times = (self.reference_ms, self.smallest_ms)
        if not (rising and np.isfinite(self.overhead_ms) and all(0 <= ms < np.inf for ms in times)):
            raise FormatError(f"impossible cost of a whole run: {self}")
        if self.smallest_ms and not 0 < self._share < np.inf:
            raise FormatError(f"impossible cost of the smallest whole run: {self}")

    @property
    def _least(self) -> float:
        """Milliseconds of the run of the smallest network."""
        return self.overhead_ms + (self.scale + self.bend * self.smallest_ms) * self.smallest_ms

    @property
    def _share(self) -> float:
        """Run over layers of the smallest network; 0 if that is not known."""
        return self._least / self.smallest_ms if self.smallest_ms else 0.0

    def of(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Milliseconds of runs whose layers take ``sums``."""
        curve = self.overhead_ms + (self.scale + self.bend * sums) * sums
        return np.where(sums < self.smallest_ms, self._share * sums, curve)

    def sums(self, runs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The inverse of ``of``."""
        layers = np.maximum(runs, self._least) - self.overhead_ms
        curve = 2 * layers / (self.scale + np.sqrt(self.scale**2 + 4 * self.bend * layers))
        return np.where(runs < self._least, runs / (self._share or np.inf), curve)

    def parts(self, total: float) -> tuple[float, float]:
        """Factor on each layer, and milliseconds beside them, of a run whose layers take ``total``."""
        if total < self.smallest_ms:
            return self._share, 0.0
        return self.scale + self.bend * total, self.overhead_ms
