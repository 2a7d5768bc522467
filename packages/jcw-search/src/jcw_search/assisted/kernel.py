"""The covariance of a model: a sum over variables, each with a weight of its own, and a joint part.

Shape suffixes: ``n`` architectures, ``d`` variables, ``k`` features of a variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from jcw_search.pareto import Floats

_GRID = np.linspace(0, 1, 41)
"""Points from which a one-dimensional kernel is interpolated; far denser than any length."""


@lru_cache(maxsize=16)
def _basis(length: float) -> Floats:
    """(grid, k) coefficients of features whose products are the kernel exp(-(x - y)^2 / (2 length^2)).

    Williams and Seeger 2001, "Using the Nystrom method to speed up kernel machines".
    """
    values, vectors = np.linalg.eigh(_bell(_GRID, length))
    kept = values > values[-1] * 1e-8
    found: Floats = vectors[:, kept] / np.sqrt(values[kept])
    return found


def features(x_nd: Floats, length: float) -> Floats:
    """Features of each variable alone, (n, d, k)."""
    found: Floats = _bell(x_nd, length) @ _basis(length)
    return found


def joint(x_nd: Floats, y_md: Floats, length: float) -> Floats:
    """exp(-|x - y|^2 / (2 length^2)), (n, m)."""
    squares = (x_nd**2).sum(axis=1)[:, None] + (y_md**2).sum(axis=1) - 2 * x_nd @ y_md.T
    return np.asarray(np.exp(-0.5 * np.maximum(squares, 0) / length**2))


def _bell(x: Floats, length: float) -> Floats:
    return np.asarray(np.exp(-0.5 * ((x[..., None] - _GRID) / length) ** 2))


@dataclass(frozen=True, slots=True)
class Kernel:
    """Sum of w_i exp(-(x_i - y_i)^2 / (2 l^2)) over the variables, and a joint part.

    Args:
        length: l of the variables alone.
        weights: (d,) w, their sum 1.
        joint_length: length of the joint part.
        joint_weight: its variance.
        noise: variance that a value has of its own.
    """

    length: float
    weights: Floats
    joint_length: float
    joint_weight: float
    noise: float

    def alone(self, x_nd: Floats) -> Floats:
        """Features (n, d k) whose products are the part of the variables alone."""
        return weighted(features(x_nd, self.length), self.weights)

    def together(self, x_nd: Floats, y_md: Floats) -> Floats:
        """The joint part, (n, m)."""
        return self.joint_weight * joint(x_nd, y_md, self.joint_length)


def weighted(features_ndk: Floats, weights_d: Floats) -> Floats:
    """Features with the variances of their variables, (n, d k)."""
    n, d, k = features_ndk.shape
    return (features_ndk * np.sqrt(weights_d)[:, None]).reshape(n, d * k)
