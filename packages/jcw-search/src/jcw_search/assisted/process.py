"""One Gaussian process: Rasmussen and Williams 2006, "Gaussian Processes for Machine Learning", algorithm 2.1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jcw_search.assisted.kernel import Kernel
from jcw_search.assisted.likelihood import likeliest_noise
from jcw_search.pareto import Floats, Indices

EXACT = 1e-5
"""Noise, as a share of the variance, at which values are taken as they are."""


@dataclass(frozen=True, slots=True)
class Process:
    """What is thought of values whose mean is about 0 and whose variance about 1.

    Args:
        kernel: its covariance.
        mean: its mean.
        seen: (n, d) positions that it learned from.
        alone: (d k,) what the features of the variables alone contribute.
        together: (n,) what the joint part contributes.
    """

    kernel: Kernel
    mean: float
    seen: Floats
    alone: Floats
    together: Floats

    @classmethod
    def fit(cls, kernel: Kernel, x_nd: Floats, y_n: Floats, scale: float | None, few: Indices) -> Process:
        """Learn from values at positions.

        Args:
            kernel: the covariance, and the noise where it is the same everywhere.
            x_nd, y_n: positions in [0, 1], and values.
            scale: what 1 stands for, of logarithms: noise that is the same in values grows in their
                logarithms as the values fall. None where values are not logarithms.
            few: indices of the values by which that noise is chosen.
        """
        own = kernel.alone(x_nd)
        covariance = own @ own.T + kernel.together(x_nd, x_nd)
        noise = np.full(len(x_nd), kernel.noise)
        mean, residual = _solved(covariance, noise, y_n)
        if scale is not None and kernel.noise > EXACT:
            shape = np.exp(-2 * scale * (y_n - noise * residual))
            shape /= shape[few].mean()
            noise = likeliest_noise(covariance[np.ix_(few, few)], shape[few], y_n[few]) * shape
            mean, residual = _solved(covariance, noise, y_n)
        return cls(kernel, mean, x_nd, own.T @ residual, residual)

    def predict(self, x_nd: Floats) -> Floats:
        """The mean at positions, (n,)."""
        alone = self.kernel.alone(x_nd) @ self.alone
        found: Floats = self.mean + alone + self.kernel.together(x_nd, self.seen) @ self.together
        return found


def _solved(covariance: Floats, noise: Floats, y_n: Floats) -> tuple[float, Floats]:
    """The best mean, and what the covariance has to be multiplied by to give the rest of ``y_n``."""
    factor = np.linalg.cholesky(covariance + np.diag(noise))
    half = np.linalg.solve(factor, np.stack([np.ones_like(y_n), y_n], axis=1))
    mean = float(half[:, 0] @ half[:, 1] / (half[:, 0] @ half[:, 0]))
    return mean, np.linalg.solve(factor.T, half[:, 1] - mean * half[:, 0])
