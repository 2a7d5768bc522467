"""``table_from_arrays``: latency tables from measurements that were made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import FormatError
from jcw_core.network.graph import Network
from jcw_core.network.layers import FusedLayer, fuse, problem_of
from jcw_core.network.problem import LayerProblem
from jcw_core.protocols import DeviceInfo
from jcw_latency.table.axes import full_size, layer_axes
from jcw_latency.table.table import LatencyTable, LayerGrid


def table_from_arrays(
    network: Network,
    arrays: Mapping[str, NDArray[np.floating]],
    *,
    axes: Mapping[str, Sequence[str]] | Sequence[str] = ("in", "out", "density"),
    device: DeviceInfo,
    others: Literal["free", "refuse"] = "refuse",
) -> LatencyTable:
    """A latency table from one array per layer, on regular grids from 0 to the full layer.

    Args:
        network: at full width.
        arrays: milliseconds by layer name (see ``jcw_core.network.layers``), e.g. (9, 9, 11) for widths i/8
            and densities k/10; a depthwise convolution counts to the 1 x 1 convolution before it.
        axes: what the dimensions of every array are, or of each array by layer name: ``"in"``,
            ``"out"``, ``"density"``; ``"channels"`` for layers with one channel axis.
        device: what was measured on.
        others: what layers without an array do: cost nothing, or raise.

    Returns:
        a table with one grid per layer, so that layers of one shape keep their own measurements.

    Raises:
        FormatError: an array for no layer, of the wrong rank or with NaN; a layer without one.
    """
    layers = {layer.name: layer for layer in fuse(network)}
    unknown = arrays.keys() - layers.keys()
    if unknown:
        raise FormatError(f"{network.name} has no layer {min(unknown)!r}; there is: {', '.join(layers)}")
    grids = []
    for name, layer in layers.items():
        if name in arrays:
            order = axes.get(name, ("in", "out", "density")) if isinstance(axes, Mapping) else axes
            grids.append(
                _grid(problem_of(network, layer), name, np.asarray(arrays[name], float), tuple(order))
            )
        elif others == "free":
            grids.append(_free(network, layer))
        else:
            raise FormatError(f"no array for {name!r} of {network.name}; give one, or let others be free")
    return LatencyTable(device, (network,), tuple(grids), settings={"imported": True})


def _grid(problem: LayerProblem, name: str, ms: NDArray[np.float64], order: tuple[str, ...]) -> LayerGrid:
    if ms.ndim != len(order):
        raise FormatError(f"array of {name!r} has shape {ms.shape}, expected the axes {', '.join(order)}")
    points = {
        axis: tuple(np.linspace(0.0, full_size(problem, axis), size).tolist())
        for axis, size in zip(order, ms.shape, strict=True)
    }
    return LayerGrid(problem, points, ms, np.zeros_like(ms), np.ones(ms.shape, np.int32), (name,))


def _free(network: Network, layer: FusedLayer) -> LayerGrid:
    problem = problem_of(network, layer)
    axes = {axis: (0.0, full_size(problem, axis)) for axis in layer_axes(network, layer, problem)}
    zeros = np.zeros((2,) * len(axes))
    return LayerGrid(problem, axes, zeros, zeros, zeros.astype(np.int32), (layer.name,))
