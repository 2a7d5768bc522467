"""A Gaussian process that learns an objective from what was evaluated, and smooths its noise.

Rasmussen and Williams 2006, "Gaussian Processes for Machine Learning", algorithm 2.1 with the kernel of
``jcw_search.assisted.kernel``. The variables' positions are logarithmic, so that equal steps keep equal shares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jcw_core.space.space import Population, SearchSpace
from jcw_search.assisted.kernel import Kernel
from jcw_search.assisted.likelihood import likeliest, likeliest_noise
from jcw_search.pareto import Floats, Indices

_LATEST, _EARLIER = 768, 256
"""Evaluations that a model learns from: the latest, which lie near the front, and some of those before."""

_FITTED = 300
"""Evaluations by which the kernel is chosen."""

_EXACT = 1e-5
"""Noise, as a share of the variance, at which values are taken as they are."""


@dataclass(frozen=True)
class Model:
    """What is thought of an objective.

    Args:
        low, high: bounds of the variables that vary, (d,).
        columns: (dimensions,) True for those variables.
        logarithmic: the process is of the values' logarithms.
        centre, scale: of the values that the process was fitted to.
        kernel: its covariance.
        mean: its mean, in units of ``scale``.
        seen: (n, d) positions that it learned from.
        alone: (d k,) what the features of the variables alone contribute.
        together: (n,) what the joint part contributes.
    """

    low: Floats
    high: Floats
    columns: NDArray[np.bool_]
    logarithmic: bool
    centre: float
    scale: float
    kernel: Kernel
    mean: float
    seen: Floats
    alone: Floats
    together: Floats

    @classmethod
    def fit(cls, space: SearchSpace, columns: NDArray[np.bool_], rows: Population, values: Floats) -> Model:
        """Learn from values (n,), all finite, of ``rows`` (n, dimensions), the latest last."""
        kept = _kept(len(rows))
        low, high = space.low[columns], space.high[columns]
        x, y = _positions(rows[kept][:, columns], low, high), values[kept]
        logarithmic = bool((y > 0).all())
        y = np.log(y) if logarithmic else y
        centre, scale = float(y.mean()), float(y.std()) or 1.0
        y = (y - centre) / scale
        spread = np.sort(
            np.argsort(y, kind="stable")[np.linspace(0, len(y) - 1, min(len(y), _FITTED)).astype(int)]
        )
        kernel = likeliest(x[spread], y[spread])
        own = kernel.alone(x)
        covariance = own @ own.T + kernel.together(x, x)
        noise = np.full(len(x), kernel.noise)
        if logarithmic and kernel.noise > _EXACT:
            mean, residual = _solved(covariance, noise, y)
            shape = np.exp(-2 * scale * (y - noise * residual))
            shape /= shape[spread].mean()
            noise = likeliest_noise(covariance[np.ix_(spread, spread)], shape[spread], y[spread]) * shape
        mean, residual = _solved(covariance, noise, y)
        return cls(
            low, high, columns, logarithmic, centre, scale, kernel, mean, x, own.T @ residual, residual
        )  # fmt: skip

    def predict(self, rows: Population) -> Floats:
        """What ``rows`` (n, dimensions) are thought to give, (n,)."""
        x = _positions(rows[:, self.columns], self.low, self.high)
        y = self.mean + self.kernel.alone(x) @ self.alone + self.kernel.together(x, self.seen) @ self.together
        y = y * self.scale + self.centre
        return np.asarray(np.exp(np.minimum(y, 700)) if self.logarithmic else y)

    def smoothed(self, rows: Population, values: Floats) -> Floats:
        """The values (n,) of evaluated ``rows`` without their noise."""
        return values if self.kernel.noise <= _EXACT else self.predict(rows)


def _kept(count: int) -> Indices:
    if count <= _LATEST + _EARLIER:
        return np.arange(count)
    earlier = np.linspace(0, count - _LATEST - 1, _EARLIER).astype(np.intp)
    return np.concatenate([earlier, np.arange(count - _LATEST, count)])


def _positions(values: Floats, low: Floats, high: Floats) -> Floats:
    """Where values lie between their bounds, 0 to 1, by their logarithm."""
    return np.asarray(np.log(values / low) / np.log(high / low))


def _solved(covariance: Floats, noise: Floats, y: Floats) -> tuple[float, Floats]:
    """The best mean, and what the covariance has to be multiplied by to give the rest of ``y``."""
    factor = np.linalg.cholesky(covariance + np.diag(noise))
    half = np.linalg.solve(factor, np.stack([np.ones_like(y), y], axis=1))
    mean = float(half[:, 0] @ half[:, 1] / (half[:, 0] @ half[:, 0]))
    return mean, np.linalg.solve(factor.T, half[:, 1] - mean * half[:, 0])
