"""``EndToEndFit``: what a network costs when it runs as a whole, given the sum of its layers, and how that is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import FormatError

_LEAST_SCALE = 0.5
"""Layers that cost twice as much alone as in a network were not timed right; do not follow them further."""
_LEAST_OF_MEASURED = 0.01
"""Share of the smallest network's run that the fit must leave of it."""
_LEAST_FOR_QUADRATIC = 9
"""Fewer networks would have their noise taken for a curve."""
_STEPS = 30
"""Of the robust fit, which changes little after ten."""
_FIELDS = {
    "scale": "scale",
    "overhead_ms": "overhead_ms",
    "bend": "quadratic",
    "reference_ms": "reference_ms",
    "smallest_ms": "smallest_ms",
}
"""The field that each key of a table's file stands for."""


@dataclass(frozen=True, slots=True)
class EndToEndFit:
    """What a run of a whole network costs: overhead + scale * sum + quadratic * sum^2 of its layers.

    Below the smallest sum that ran, where a negative overhead would end in negative times, it is in proportion.

    Args:
        scale: layers in a network find caches colder than a layer that is timed alone; above 0.
        overhead_ms: what does not depend on the layers.
        quadratic: per millisecond; above 0 where small networks stay in caches that large ones do not fit into.
        reference_ms: what the network itself, with nothing pruned, took between the layers; 0 if it did not run.
        smallest_ms: the smallest sum of layers among the networks that ran; 0 if that is not known.

    Raises:
        FormatError: a value out of range.
    """

    scale: float = 1.0
    overhead_ms: float = 0.0
    quadratic: float = 0.0
    reference_ms: float = 0.0
    smallest_ms: float = 0.0

    def __post_init__(self) -> None:
        rising = 0 < self.scale < np.inf and 0 <= self.quadratic < np.inf
        times = (self.reference_ms, self.smallest_ms)
        if not (rising and np.isfinite(self.overhead_ms) and all(0 <= ms < np.inf for ms in times)):
            raise FormatError(f"impossible cost of a whole run: {self}")
        if self.smallest_ms and not 0 < self._share < np.inf:
            raise FormatError(f"impossible cost of the smallest whole run: {self}")

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> EndToEndFit:
        """Read what ``to_dict`` wrote; keys that are left out, as older files do, have their defaults.

        Raises:
            FormatError: a value out of range.
            KeyError, TypeError, ValueError, OverflowError: an unknown key, or no number.
        """
        return cls(**{_FIELDS[key]: float(value) for key, value in document.items()})

    def to_dict(self) -> dict[str, float]:
        """As it stands in a table's file, where the quadratic term is called ``bend``."""
        return {key: getattr(self, name) for key, name in _FIELDS.items()}

    @property
    def _least(self) -> float:
        """Milliseconds of the run of the smallest network."""
        return self.overhead_ms + (self.scale + self.quadratic * self.smallest_ms) * self.smallest_ms

    @property
    def _share(self) -> float:
        """Run over layers of the smallest network; 0 if that is not known."""
        return self._least / self.smallest_ms if self.smallest_ms else 0.0

    def of(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Milliseconds of runs whose layers take ``sums``."""
        curve = self.overhead_ms + (self.scale + self.quadratic * sums) * sums
        return np.where(sums < self.smallest_ms, self._share * sums, curve)

    def sums(self, runs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The inverse of ``of``."""
        layers = np.maximum(runs, self._least) - self.overhead_ms
        curve = 2 * layers / (self.scale + np.sqrt(self.scale**2 + 4 * self.quadratic * layers))
        return np.where(runs < self._least, runs / (self._share or np.inf), curve)

    def parts(self, total: float) -> tuple[float, float]:
        """Factor on each layer, and milliseconds beside them, of a run whose layers take ``total``."""
        if total < self.smallest_ms:
            return self._share, 0.0
        return self.scale + self.quadratic * total, self.overhead_ms


def fit_end_to_end(sums: NDArray[np.float64], measured: NDArray[np.float64]) -> EndToEndFit:
    """The cost of whole runs that fits best by relative error, outliers counting less (Huber 1964).

    The quadratic term and then the overhead are left out where there are too few networks for them, or where the
    rest would have to be impossible to go with them, as is a smallest network that takes no time.

    Args:
        sums: milliseconds of all layers of each network, (n,), above 0.
        measured: milliseconds of its whole run, (n,).
    """
    mean, smallest = float(sums.mean()), int(sums.argmin())
    terms = np.stack([sums / mean, np.ones_like(sums), (sums / mean) ** 2], axis=1) / measured[:, None]
    most = 3 if len(sums) >= _LEAST_FOR_QUADRATIC else min(len(sums), 2)
    for count in range(most, 0, -1):
        factors = _robust(terms[:, :count])
        scale, overhead, quadratic = (*factors, 0.0, 0.0)[:3]
        takes_time = terms[smallest, :count] @ factors > _LEAST_OF_MEASURED
        if scale / mean >= _LEAST_SCALE and quadratic >= 0 and takes_time:
            break
    return EndToEndFit(
        max(float(scale) / mean, _LEAST_SCALE),
        float(overhead),
        max(float(quadratic), 0.0) / mean**2,
        smallest_ms=float(sums[smallest]),
    )


def _robust(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Factors of ``terms`` (n, k) whose sum is about 1 everywhere, by iteratively reweighted least squares."""
    weights = np.ones(len(terms))
    for _ in range(_STEPS):
        roots = np.sqrt(weights)
        factors = np.linalg.lstsq(terms * roots[:, None], roots, rcond=None)[0].astype(np.float64)
        errors = np.abs(terms @ factors - 1)
        weights = 1 / np.maximum(errors / (1.5 * np.median(errors) + 1e-12), 1)
    return factors
