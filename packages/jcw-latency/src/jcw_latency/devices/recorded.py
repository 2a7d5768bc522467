"""The device ``recorded``: answers from a latency table that was measured before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DeviceError
from jcw_core.network.graph import Network
from jcw_core.network.problem import LayerProblem
from jcw_core.options import option
from jcw_core.protocols import DeviceInfo
from jcw_latency.table.axes import CHANNELS, DENSITY, IN, OUT, layer_at
from jcw_latency.table.end_to_end import EndToEndFit
from jcw_latency.table.interpolation import interpolate
from jcw_latency.table.table import LatencyTable, LayerGrid


@dataclass(frozen=True, slots=True)
class RecordedOptions:
    """``[device] name = "recorded"``."""

    table: Path = option(help="latency table to answer from")


class RecordedPlugin:
    """Opens a saved table as a device."""

    name = "recorded"
    options = RecordedOptions

    def open(self, options: RecordedOptions) -> RecordedDevice:
        """Read the table. Raises ``FormatError``."""
        return RecordedDevice(LatencyTable.load(options.table), options.table)


class RecordedDevice:
    """A latency table in the place of a device; it cannot run models, but knows what those cost that ran for it."""

    model_format = ""

    def __init__(self, table: LatencyTable, path: Path) -> None:
        self._table = table
        self._path = path

    def describe(self) -> DeviceInfo:
        """What the table was measured on."""
        return replace(self._table.device, name="recorded")

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        """Recorded times, the same in every round; between grid points they are interpolated.

        Raises:
            DeviceError: the table has no such layer.
        """
        return np.tile([self._seconds(problem) for problem in problems], (rounds, 1))

    def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
        """Never works: a table knows layers alone."""
        raise DeviceError("device 'recorded' answers for layers and cannot run models; use a real device")

    def end_to_end_fits(self, network: Network) -> dict[str, EndToEndFit]:
        """As ``KnowsEndToEndFits``; empty where the table does not say, or is of a namesake."""
        own = self._table.end_to_end if network in self._table.networks else {}
        return {name: run for name, run in own.items() if name == network.name}

    def _seconds(self, problem: LayerProblem) -> float:
        found = [g for g in self._table.grids if _holds(g, problem)]
        if not found:
            raise DeviceError(
                f"{self._path}: made for {', '.join(n.name for n in self._table.networks)}; it has no layer that "
                f"{problem} is a part of; profile this network"
            )
        # The narrowest layer that contains it has the closest grid points.
        grid = min(found, key=lambda g: g.problem.in_channels * g.problem.out_channels)
        return interpolate(grid, {axis: _position(problem, axis) for axis in grid.axes}) / 1e3


def _position(problem: LayerProblem, axis: str) -> float:
    values = {IN: problem.in_channels, OUT: problem.out_channels, CHANNELS: problem.in_channels}
    return problem.density if axis == DENSITY else values[axis]


def _holds(grid: LayerGrid, problem: LayerProblem) -> bool:
    """True when ``problem`` is the grid's layer at some position on its axes."""
    full = grid.problem
    if problem.in_channels > full.in_channels or problem.out_channels > full.out_channels:
        return False
    return layer_at(full, {axis: _position(problem, axis) for axis in grid.axes}) == problem
