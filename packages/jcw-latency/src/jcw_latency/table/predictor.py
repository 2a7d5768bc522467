"""``LatencyPredictor``: the latency of any architecture of a space, by trilinear interpolation (section 2.5).

Widths come in steps, so each layer's grid is interpolated to all its widths once; what remains
per architecture and layer is one look-up and one linear interpolation along density.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import ArchitectureError
from jcw_core.network.architecture import Architecture
from jcw_core.network.layers import fuse
from jcw_core.space.space import Population, SearchSpace
from jcw_latency.table.axes import DENSITY, Coordinate, full_size, layer_coordinates
from jcw_latency.table.end_to_end import EndToEndFit
from jcw_latency.table.interpolation import Array, contract, locate
from jcw_latency.table.table import LatencyTable, LayerGrid

_CHUNK = 2048
"""Architectures at a time: a column of them and its temporaries stay in the first cache."""

_FEW = 256
"""Below so many, interpolating to the widths at hand is cheaper than to all of them."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer: its grid, and where a population lies on each axis of it."""

    name: str
    grid: LayerGrid
    coordinates: Mapping[str, Coordinate]

    @property
    def widths(self) -> tuple[str, ...]:
        """Width axes along which the population varies."""
        return tuple(axis for axis, c in self.coordinates.items() if c.terms and axis != DENSITY)

    @property
    def density(self) -> int | None:
        """The column that holds its density."""
        terms = self.coordinates[DENSITY].terms if DENSITY in self.coordinates else ()
        return terms[0][0] if terms else None

    def rows(self, positions: Mapping[str, Array]) -> Array:
        """Milliseconds (positions of all ``widths`` in row-major order, density points)."""
        fixed = {axis: np.array([c.constant]) for axis, c in self.coordinates.items()}
        values = contract(self.grid, {**fixed, **positions}, keep_density=self.density is not None)
        return values.reshape(-1, values.shape[-1] if self.density is not None else 1)


@dataclass(frozen=True, slots=True)
class _Term:
    """A layer, or the sum of several that depend on the same widths, tabulated for all widths.

    Args:
        table: milliseconds, flat: row x density points.
        offset, factors: the row's place in ``table`` is offset + sum of factor * step of column.
        density: column, or None for a term of one density point.
        points: density points.
    """

    table: Array
    offset: int
    factors: tuple[tuple[int, int], ...]
    density: int | None
    points: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The latency of one architecture.

    Args:
        layers: milliseconds by layer name.
        overhead_ms: of the run as a whole.
    """

    layers: Mapping[str, float]
    overhead_ms: float

    def __repr__(self) -> str:
        return f"<Breakdown of {self.total_ms:.6g} ms: {len(self.layers)} layers, overhead {self.overhead_ms:.6g} ms>"

    @property
    def total_ms(self) -> float:
        """What ``predict`` says."""
        return sum(self.layers.values()) + self.overhead_ms


class LatencyPredictor:
    """Predicts the latency of architectures.

    Args:
        table: what layers cost.
        space: where the architectures come from.

    Raises:
        FormatError: the table was made for another network.
    """

    def __init__(self, table: LatencyTable, space: SearchSpace) -> None:
        self.space = space
        self.end_to_end = table.end_to_end.get(space.network.name, EndToEndFit())
        coordinates = layer_coordinates(space)
        self._layers = []
        for layer in fuse(space.network):
            grid = table.grid(space.network, layer)
            along = {axis: coordinates[layer.name][axis] for axis in grid.axes}
            self._layers.append(_Layer(layer.name, grid, along))

    def __repr__(self) -> str:
        return f"<LatencyPredictor of {self.space.network.name!r}: {len(self._layers)} layers>"

    def predict(self, population: Population) -> Array:
        """Latency of each architecture.

        Args:
            population: values (n, dimensions) of the space; channels must be whole numbers.

        Returns:
            (n,) milliseconds.

        Raises:
            ArchitectureError: a value outside the network, or NaN.
        """
        if population.ndim != 2 or population.shape[1] != self.space.dimensions:
            raise ArchitectureError(
                f"population has shape {population.shape}, expected (n, {self.space.dimensions})"
            )
        if len(population) < _FEW:
            return self._from_grids(population)
        chunks = [population[i : i + _CHUNK] for i in range(0, len(population), _CHUNK)]
        return np.concatenate([self._from_terms(chunk) for chunk in chunks])

    def breakdown(self, architecture: Architecture) -> Breakdown:
        """What each layer and the run as a whole add to the latency of one architecture.

        Raises:
            ArchitectureError: a name or value that the space does not have.
        """
        columns = self._columns(self.space.row(architecture)[None])
        layers = {layer.name: float(_interpolate(layer, columns)[0]) for layer in self._layers}
        share, overhead_ms = self.end_to_end.parts(sum(layers.values()))
        return Breakdown({name: share * ms for name, ms in layers.items()}, overhead_ms)

    def _columns(self, population: Population) -> Array:
        """(dimensions, n), contiguous along architectures, and within the network."""
        columns = np.ascontiguousarray(population.T, dtype=np.float64)
        top = self.space.maximum[:, None]
        if not (columns.min(initial=0.0) >= 0 and (columns <= top).all()):
            bad = int(np.nonzero(~((columns >= 0) & (columns <= top)).all(axis=1))[0][0])
            variable = self.space.variables[bad]
            raise ArchitectureError(
                f"{variable.kind} of {variable.name!r} lies outside 0 to {variable.maximum:g}, "
                "so the latency table cannot predict it"
            )
        return columns

    def _from_grids(self, population: Population) -> Array:
        columns = self._columns(population)
        total = np.zeros(len(population))
        for layer in self._layers:
            total += _interpolate(layer, columns)
        return self.end_to_end.of(total)

    def _from_terms(self, population: Population) -> Array:
        columns = self._columns(population)
        widths = columns[: self._width_count]
        steps = (widths * (1 / self._steps) + 0.5).astype(np.intp)
        if not (steps * self._steps == widths).all():
            return self._from_grids(population)
        constant, terms = self._terms
        total = np.full(len(population), constant)
        located: dict[tuple[float, ...], tuple[NDArray[np.intp], Array]] = {}
        for term in terms:
            place: NDArray[np.intp] | int = term.offset
            for column, factor in term.factors:
                place = place + factor * steps[column]
            if term.density is None:
                total += term.table.take(place)
                continue
            if term.points not in located:
                located[term.points] = locate(np.array(term.points), columns[self._width_count :])
            cells, shares = (part[term.density - self._width_count] for part in located[term.points])
            place = place + cells
            low = term.table.take(place)
            total += low + shares * (term.table[1:].take(place) - low)
        return self.end_to_end.of(total)

    @cached_property
    def _width_count(self) -> int:
        return sum(v.kind == "width" for v in self.space.variables)

    @cached_property
    def _steps(self) -> Array:
        """Greatest common step of each width variable, (widths, 1)."""
        variables = self.space.variables[: self._width_count]
        steps = [np.gcd.reduce([int(v.step), int(v.low), int(v.high)]) for v in variables]
        return np.array(steps, dtype=np.float64)[:, None]

    @cached_property
    def _terms(self) -> tuple[float, list[_Term]]:
        """What the layers cost that does not vary, and a term for everything that does."""
        constant, merged = 0.0, dict[object, _Term]()
        for layer in self._layers:
            term = self._term(layer)
            if not term.factors and term.density is None:
                constant += float(term.table[0])
                continue
            key = (term.offset, term.factors, term.density, term.table.size)
            known = merged.get(key)
            merged[key] = term if known is None else replace(term, table=known.table + term.table)
        return constant, list(merged.values())

    def _term(self, layer: _Layer) -> _Term:
        stops = {axis: full_size(layer.grid.problem, axis) for axis in layer.widths}
        strides = {axis: layer.coordinates[axis].stride for axis in layer.widths}
        positions = {axis: np.arange(0.0, stops[axis] + 0.5, strides[axis]) for axis in layer.widths}
        rows = layer.rows(positions)
        size, offset, factors = rows.shape[1], 0, dict[int, int]()
        for axis in reversed(layer.widths):
            coordinate = layer.coordinates[axis]
            offset += size * int(coordinate.constant) // strides[axis]
            for column, factor in coordinate.terms:
                step = factor * int(self._steps[column, 0]) // strides[axis]
                factors[column] = factors.get(column, 0) + size * step
            size *= len(positions[axis])
        points = layer.grid.axes[DENSITY] if layer.density is not None else ()
        return _Term(rows.ravel(), offset, tuple(sorted(factors.items())), layer.density, points)


def _interpolate(layer: _Layer, columns: Array) -> Array:
    """Latency of one layer in each architecture, (n,), by interpolating to the widths at hand."""
    positions, place = dict[str, Array](), np.zeros(columns.shape[1], dtype=np.intp)
    for axis in layer.widths:
        positions[axis], inverse = np.unique(layer.coordinates[axis].of(columns), return_inverse=True)
        place = place * len(positions[axis]) + inverse
    rows = layer.rows(positions)
    if layer.density is None:
        only: Array = rows[place, 0]
        return only
    cells, shares = locate(np.array(layer.grid.axes[DENSITY]), columns[layer.density])
    low: Array = rows[place, cells]
    return low + shares * (rows[place, cells + 1] - low)
