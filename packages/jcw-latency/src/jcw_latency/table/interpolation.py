"""Multilinear interpolation of a layer's grid, one axis at a time (section 2.5 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jcw_core.errors import ArchitectureError
from jcw_latency.table.axes import DENSITY
from jcw_latency.table.table import LayerGrid

Array = NDArray[np.float64]


def locate(points: Array, positions: Array) -> tuple[NDArray[np.intp], Array]:
    """The cell of each position and the share of the way through it.

    Args:
        points: rising, (k,), k at least 2.
        positions: within the points, any shape.

    Returns:
        index of the cell's lower point, at most k - 2, and a fraction in [0, 1], in the shape of
        ``positions``.
    """
    last = len(points) - 1
    if np.allclose(points * last, np.arange(last + 1) * points[-1], rtol=1e-14, atol=0):
        # Evenly spaced from 0, as densities are: no search.
        scaled = positions * (last / points[-1])
        cells = np.minimum(scaled.astype(np.intp), last - 1)
        return cells, scaled - cells
    cells = np.clip(np.searchsorted(points, positions, side="right") - 1, 0, last - 1)
    low, high = points[cells], points[cells + 1]
    return cells, (positions - low) / (high - low)


def weights(points: Sequence[float], positions: Array) -> Array:
    """Linear interpolation as a matrix (len(positions), len(points)): tau of section 2.5 of the paper.

    Raises:
        ArchitectureError: a position outside the points.
    """
    if not ((positions >= points[0]) & (positions <= points[-1])).all():
        raise ArchitectureError(
            f"an architecture lies outside the latency table: {positions.min():g} to {positions.max():g}, "
            f"measured from {points[0]:g} to {points[-1]:g}"
        )
    cells, share = locate(np.asarray(points), positions)
    matrix, rows = np.zeros((len(positions), len(points))), np.arange(len(positions))
    matrix[rows, cells] = 1 - share
    matrix[rows, cells + 1] = share
    return matrix


def contract(grid: LayerGrid, positions: Mapping[str, Array], *, keep_density: bool) -> Array:
    """Interpolate a grid to given positions along its axes.

    Args:
        grid: the layer.
        positions: by axis name, for every axis of the grid that is not kept.
        keep_density: leave the density axis as measured; it becomes the last axis.

    Returns:
        milliseconds, one dimension per axis in the grid's order, density last.
    """
    values = grid.ms
    for axis, points in grid.axes.items():
        # Each axis is taken from the front and put back at the end, so their order comes round again.
        if axis == DENSITY and keep_density:
            values = np.moveaxis(values, 0, -1)
        else:
            values = np.tensordot(values, weights(points, positions[axis]), axes=(0, 1))
    if keep_density and DENSITY in grid.axes:
        values = np.moveaxis(values, list(grid.axes).index(DENSITY), -1)
    return values


def interpolate(grid: LayerGrid, position: Mapping[str, ArrayLike]) -> float:
    """The latency of a layer at one position, milliseconds; see ``contract``."""
    positions = {axis: np.atleast_1d(np.asarray(value, dtype=float)) for axis, value in position.items()}
    return float(contract(grid, positions, keep_density=False).reshape(()))
