"""What is thought of an objective, learned from what was evaluated, and without its noise.

The mean of a few Gaussian processes whose kernels are about as likely. Positions of the variables are
logarithmic, so that equal steps keep equal shares, and so are values, where all are positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jcw_core.space.space import Population, SearchSpace
from jcw_search.assisted.likelihood import likely
from jcw_search.assisted.positions import Positions
from jcw_search.assisted.process import EXACT, Process
from jcw_search.pareto import Floats, Indices

_LATEST, _EARLIER = 768, 256
"""Evaluations that a model learns from: the latest, which lie near the front, and some of those before."""

_FITTED = 300
"""Evaluations by which the kernels are chosen."""


@dataclass(frozen=True, slots=True)
class Model:
    """What is thought of an objective.

    Args:
        positions: of architectures.
        logarithmic: the processes are of the values' logarithms.
        centre, scale: of the values that the processes were fitted to.
        processes: of which the mean is taken.
    """

    positions: Positions
    logarithmic: bool
    centre: float
    scale: float
    processes: Sequence[Process]

    @classmethod
    def fit(cls, space: SearchSpace, columns: NDArray[np.bool_], rows: Population, values: Floats) -> Model:
        """Learn from values (n,), all finite, of ``rows`` (n, dimensions), the latest last.

        ``columns`` (dimensions,) is True for what varies.
        """
        kept = _kept(len(rows))
        positions = Positions.of(space, columns)
        x, y = positions(rows[kept]), values[kept]
        logarithmic = bool((y > 0).all())
        y = np.log(y) if logarithmic else y
        centre, scale = float(y.mean()), float(y.std()) or 1.0
        y = (y - centre) / scale
        few = _spread(y)
        processes = [
            Process.fit(kernel, x, y, scale if logarithmic else None, few)
            for kernel in likely(x[few], y[few])
        ]
        return cls(positions, logarithmic, centre, scale, processes)

    def predict(self, rows: Population) -> Floats:
        """What ``rows`` (n, dimensions) are thought to give, (n,)."""
        x = self.positions(rows)
        y = np.mean([process.predict(x) for process in self.processes], axis=0) * self.scale + self.centre
        return np.asarray(np.exp(np.minimum(y, 700)) if self.logarithmic else y)

    def smoothed(self, rows: Population, values: Floats) -> Floats:
        """The values (n,) of evaluated ``rows`` without their noise."""
        return values if self.processes[0].kernel.noise <= EXACT else self.predict(rows)


def _kept(count: int) -> Indices:
    if count <= _LATEST + _EARLIER:
        return np.arange(count)
    earlier = np.linspace(0, count - _LATEST - 1, _EARLIER).astype(np.intp)
    return np.concatenate([earlier, np.arange(count - _LATEST, count)])


def _spread(y: Floats) -> Indices:
    """Rising indices of up to ``_FITTED`` values, from the lowest to the largest."""
    ranks = np.linspace(0, len(y) - 1, min(len(y), _FITTED)).astype(np.intp)
    return np.sort(np.argsort(y, kind="stable")[ranks])
