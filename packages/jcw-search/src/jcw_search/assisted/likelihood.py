"""The kernels under which values are the most likely, of a small grid."""

from __future__ import annotations

from itertools import product

import numpy as np

from jcw_search.assisted.kernel import Kernel, features, joint, weighted
from jcw_search.pareto import Floats

_LENGTHS = (0.3, 0.6, 1.0)
_JOINT_LENGTHS = (2.0, 4.0)
_JOINT_WEIGHTS = (0.2, 1.0)
_NOISES = np.array([1e-7, 1e-5, 1e-4, *10.0 ** np.arange(-3, 1.1, 0.5)])
_ALIKE = 20.0
"""Twice the logarithm of how much less likely a kernel may be than the best, and still have a say."""

_ROUNDS = 2
"""Times that the weights of the variables are set to the variance that each explains."""

_FLOOR = 0.2
"""Share of the weights that all variables have alike, so that none is lost for good."""


def likely(x_nd: Floats, y_n: Floats) -> list[Kernel]:
    """The likeliest kernel of each length, the best first, without those that are far less likely.

    Args:
        x_nd: positions of variables in [0, 1].
        y_n: values with mean 0 and variance about 1.
    """
    found = []
    for length in _LENGTHS:
        own = features(x_nd, length)
        weights = _relevance(own, y_n)
        alone = weighted(own, weights)
        found.append(_likeliest(alone @ alone.T, length, weights, x_nd, y_n))
    found.sort(key=lambda pair: pair[0])
    return [kernel for cost, kernel in found if cost <= found[0][0] + _ALIKE]


def _likeliest(
    alone: Floats, length: float, weights: Floats, x_nd: Floats, y_n: Floats
) -> tuple[float, Kernel]:
    """The cost and kernel of the best joint part and noise beside ``alone``, (n, n)."""
    tried = []
    for joint_length, joint_weight in product(_JOINT_LENGTHS, _JOINT_WEIGHTS):
        costs = _costs(*np.linalg.eigh(alone + joint_weight * joint(x_nd, x_nd, joint_length)), y_n)
        noise = float(_NOISES[costs.argmin()])
        tried.append((float(costs.min()), Kernel(length, weights, joint_length, joint_weight, noise)))
    return min(tried, key=lambda pair: pair[0])


def likeliest_noise(covariance: Floats, shape_n: Floats, y_n: Floats) -> float:
    """The factor of ``shape_n`` that is the likeliest noise of values with this covariance (n, n)."""
    root = np.sqrt(shape_n)
    values, vectors = np.linalg.eigh(covariance / root / root[:, None])
    return float(_NOISES[_costs(values, vectors, y_n / root, 1 / root).argmin()])


def _relevance(features_ndk: Floats, y_n: Floats) -> Floats:
    """Weights (d,): the share of the variance that each variable explains, found in rounds."""
    d, k = features_ndk.shape[1:]
    weights = np.full(d, 1 / d)
    for _ in range(_ROUNDS):
        own = weighted(features_ndk, weights)
        values, vectors = np.linalg.eigh(own @ own.T)
        noise = _NOISES[_costs(values, vectors, y_n).argmin()]
        residual = vectors @ ((vectors.T @ (y_n - y_n.mean())) / (np.maximum(values, 0) + noise))
        effect = (own * (own.T @ residual)).reshape(-1, d, k).sum(axis=2).var(axis=0)
        if effect.sum() > 0:
            weights = (1 - _FLOOR) * effect / effect.sum() + _FLOOR / d
    return weights


def _costs(values: Floats, vectors: Floats, y_n: Floats, one_n: Floats | None = None) -> Floats:
    """Twice the negative log likelihood for each noise, up to a constant; mean and variance are the best.

    Args:
        values, vectors: eigenvalues (n,) and eigenvectors (n, n) of the kernel without noise.
        y_n: what was observed.
        one_n: what a mean of 1 would give; ones by default.
    """
    spread = np.maximum(values, 0) + _NOISES[:, None]
    ones = vectors.sum(axis=0) if one_n is None else vectors.T @ one_n
    turned = vectors.T @ y_n
    mean = (ones * turned / spread).sum(axis=1) / (ones**2 / spread).sum(axis=1)
    variance = ((turned - mean[:, None] * ones) ** 2 / spread).mean(axis=1)
    return np.asarray(np.log(spread).sum(axis=1) + len(y_n) * np.log(np.maximum(variance, 1e-300)))
