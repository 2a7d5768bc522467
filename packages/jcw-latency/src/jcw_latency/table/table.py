"""``LatencyTable``: what every distinct layer of a network costs on one device, on a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DeviceError, FormatError, JcwError
from jcw_core.frames import data_frame
from jcw_core.network.graph import Network
from jcw_core.network.layers import FusedLayer, problem_of
from jcw_core.network.problem import LayerProblem
from jcw_core.network.problem_text import describe
from jcw_core.protocols import DeviceInfo
from jcw_core.shown import html_table
from jcw_latency.table import npz
from jcw_latency.table.axes import AXES, full_size, layer_axes
from jcw_latency.table.end_to_end import EndToEndFit
from jcw_latency.table.text import unprintable

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "jcw-table/1"
_REMEDY = "profile again with `jcw profile`"
_ARRAYS = {"ms": "float64", "spread_ms": "float64", "rounds": "int32"}


@dataclass(frozen=True, slots=True, eq=False)
class LayerGrid:
    """The latency of one layer on a grid.

    Args:
        problem: the layer at full width and density 1.
        axes: rising positions by axis name (``in``, ``out``, ``channels``: channels; ``density``:
            shares) from 0 to the full layer, in the order of the arrays' dimensions. The layer has one
            size on an axis that is left out.
        ms: latency at each point, milliseconds; 0 at width 0.
        spread_ms: interquartile range over the rounds, in the shape of ``ms``.
        rounds: how often each point was timed, in the shape of ``ms``.
        layers: names of the only layers that it stands for; empty for every layer with this problem.

    Raises:
        FormatError: shapes that do not match, or a value that is negative or not finite.
    """

    problem: LayerProblem
    axes: Mapping[str, tuple[float, ...]]
    ms: NDArray[np.float64]
    spread_ms: NDArray[np.float64]
    rounds: NDArray[np.int32]
    layers: tuple[str, ...] = ()

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(points)} {axis}" for axis, points in self.axes.items())
        return f"<LayerGrid of {self.label}: {sizes or 'one point'}>"

    def __post_init__(self) -> None:
        shape = tuple(map(len, self.axes.values()))
        for name in _ARRAYS:
            array = getattr(self, name)
            if array.shape != shape:
                raise FormatError(f"{self.label}: {name} has shape {array.shape}, expected {shape}")
            if not np.isfinite(array).all() or (array < 0).any():
                raise FormatError(f"{self.label}: {name} holds NaN, infinity or a negative number")
        for axis, points in self.axes.items():
            if axis not in AXES or len(points) < 2 or not (np.diff(points) > 0).all():
                raise FormatError(f"{self.label}: axis {axis!r} has points {points}; expected rising ones")
            if points[0] != 0 or points[-1] != full_size(self.problem, axis):
                raise FormatError(
                    f"{self.label}: axis {axis!r} spans {points[0]:g} to {points[-1]:g}, "
                    f"expected 0 to {full_size(self.problem, axis):g}"
                )

    def points(self) -> dict[str, NDArray[Any]]:
        """The columns of ``LatencyTable.to_dataframe``, with a row for each point that was measured."""
        measured = self.rounds > 0
        index = np.argwhere(measured)
        size = len(index)
        columns: dict[str, NDArray[Any]] = {
            "layer": np.full(size, self.label, dtype=object),
            "layers": np.full(size, ", ".join(self.layers), dtype=object),
            **{axis: np.full(size, np.nan) for axis in AXES},
            **{name: getattr(self, name)[measured] for name in _ARRAYS},
        }
        for column, (axis, positions) in enumerate(self.axes.items()):
            columns[axis] = np.array(positions)[index[:, column]]
        return columns

    @property
    def label(self) -> str:
        """The layer in a few words."""
        return describe(self.problem)


@dataclass(frozen=True, eq=False)
class LatencyTable:
    """Latencies of layers on one device.

    Args:
        device: what they were measured on.
        networks: whose layers they are, at full width.
        grids: of every distinct layer; more than one where none has the axes of all others.
        end_to_end: what their runs cost, given their layers, by network name; those that were not run
            are left out and cost the sum of their layers.
        settings: how it was measured, for people.
    """

    device: DeviceInfo
    networks: tuple[Network, ...]
    grids: tuple[LayerGrid, ...]
    end_to_end: Mapping[str, EndToEndFit] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<LatencyTable of {self._made_for()} on {self.device.name!r}: {len(self.grids)} layers>"

    def _repr_html_(self) -> str:
        """For notebooks: what each whole layer costs, and how many points of it were measured."""
        device = self.device
        title = f"{self!r}: {device.cpu}, {device.isa}, {device.threads} thread(s)"
        rows = [(grid.label, grid.ms.size, f"{grid.ms.flat[-1]:.4f}") for grid in self.grids]
        return html_table(title, ("layer", "points", "full ms"), rows)

    def to_dataframe(self) -> pd.DataFrame:
        """A row for each point that was measured.

        Returns:
            the columns ``layer`` (its problem in words), ``layers`` (the names of the only ones it stands for), a
            position along each axis (``in``, ``out`` and ``channels`` in channels, ``density`` as a share; NaN where a
            layer has one size on that axis), ``ms``, ``spread_ms`` and ``rounds``, see ``LayerGrid``.

        Raises:
            JcwError: pandas is not installed.
        """
        parts = [grid.points() for grid in self.grids]
        names = ("layer", "layers", *AXES, *_ARRAYS)
        return data_frame({name: np.concatenate([part[name] for part in parts]) for name in names})

    def grid(self, network: Network, layer: FusedLayer) -> LayerGrid:
        """The grid of one layer of a network.

        Raises:
            FormatError: the table has no such layer, or lacks an axis that the layer needs.
        """
        problem = problem_of(network, layer)
        same = [g for g in self.grids if g.problem == problem]
        named = [g for g in same if layer.name in g.layers] or [g for g in same if not g.layers]
        if not named:
            raise FormatError(
                f"the latency table has no layer for {layer.name!r} ({describe(problem)}); it was made for "
                f"{self._made_for()}, not for this {network.name}; {_REMEDY}"
            )
        needed = layer_axes(network, layer, problem)
        # A merged table has several where networks vary one layer along different axes.
        grid = next((g for g in named if g.axes.keys() >= set(needed)), None)
        if grid is None:
            missing = next(axis for axis in needed if axis not in named[0].axes)
            raise FormatError(
                f"the latency table has no {missing!r} axis for {layer.name!r} of {network.name}; {_REMEDY}"
            )
        return grid

    def network(self, name: str | None = None) -> Network:
        """One of its networks; the only one by default.

        Raises:
            FormatError: there is no such network, or a name is needed.
        """
        found = [n for n in self.networks if name in (None, n.name)]
        if len(found) != 1:
            wanted = "say which network" if name is None else f"no network {name!r}"
            raise FormatError(f"{wanted}; the latency table is for {self._made_for()}")
        return found[0]

    def require(self, device: DeviceInfo) -> None:
        """Check that latencies of ``device`` are what this table holds.

        Raises:
            DeviceError: another processor, instruction set, number of threads or engine version.
        """
        for name in ("cpu", "isa", "threads", "versions"):
            own, other = getattr(self.device, name), getattr(device, name)
            if own != other:
                raise DeviceError(
                    f"the latency table was measured with {name} {own!r}, the device {device.name!r} has {other!r}; "
                    f"{_REMEDY}"
                )

    def _made_for(self) -> str:
        return ", ".join(n.name for n in self.networks) or "no network"

    def save(self, path: Path | str) -> None:
        """Write ``table.npz`` atomically, and read it back: what it was made of may be removed next.

        Raises:
            FormatError: what was written cannot be read.
        """
        layers = [
            {
                "problem": asdict(g.problem),
                "axes": {k: list(v) for k, v in g.axes.items()},
                "layers": g.layers,
            }
            for g in self.grids
        ]
        metadata = {
            "format": FORMAT,
            "device": self.device.to_dict(),
            "networks": [n.to_json() for n in self.networks],
            "whole": {name: fit.to_dict() for name, fit in self.end_to_end.items()},
            "settings": dict(self.settings),
            "layers": layers,
        }
        arrays = {
            f"{index:04d}.{name}": np.asarray(getattr(grid, name), dtype)
            for index, grid in enumerate(self.grids)
            for name, dtype in _ARRAYS.items()
        }
        npz.write(Path(path), metadata, arrays)
        self.load(path)

    @classmethod
    def load(cls, path: Path | str) -> LatencyTable:
        """Load a ``table.npz``.

        Raises:
            FormatError: the file is missing, cut short, holds NaN or is no latency table.
        """
        with npz.Reader(Path(path), FORMAT, _REMEDY) as reader:
            document = reader.metadata
            try:
                grids = tuple(_grid(reader, i, layer) for i, layer in enumerate(document["layers"]))
                return cls(
                    DeviceInfo.from_dict(document["device"]),
                    tuple(map(_network, document["networks"])),
                    grids,
                    {name: EndToEndFit.from_dict(fit) for name, fit in document["whole"].items()},
                    dict(document["settings"]),
                )
            except npz.DamagedFileError:
                raise
            except JcwError as error:
                raise reader.error(str(error)) from None
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:
                raise reader.error(f"its metadata is damaged ({error!r})") from None


def _network(text: str) -> Network:
    network = Network.from_json(text)
    # Its names were escaped as long as they were text within text.
    if (problem := unprintable([network.name, *(node.name for node in network)])) is not None:
        raise FormatError(f"the name of a network or node is damaged: {problem}")
    return network


def _grid(reader: npz.Reader, index: int, layer: Mapping[str, Any]) -> LayerGrid:
    problem = LayerProblem.from_dict(layer["problem"])
    axes = {str(k): tuple(map(float, v)) for k, v in layer["axes"].items()}
    shape = tuple(map(len, axes.values()))
    arrays = {name: reader.array(f"{index:04d}.{name}", shape, dtype) for name, dtype in _ARRAYS.items()}
    return LayerGrid(problem, axes, **arrays, layers=tuple(map(str, layer["layers"])))
