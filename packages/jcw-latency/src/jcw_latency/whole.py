"""What a whole run costs beyond the sum of its layers, measured on a few networks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.protocols import Device, Exporter
from jcw_core.space import Population, SearchSpace
from jcw_latency.guard import GuardedDevice
from jcw_latency.network_runs import NetworkRuns, Notify
from jcw_latency.options import LatencyOptions
from jcw_latency.predictor import LatencyPredictor
from jcw_latency.profiling import profile
from jcw_latency.table import LatencyTable, WholeRun

_LEAST_SCALE = 0.5
"""Layers that cost twice as much alone as in a network were not timed right; do not follow them further."""


def profile_space(
    space: SearchSpace,
    device: Device,
    exporter: Exporter | None,
    options: LatencyOptions,
    *,
    rng: np.random.Generator,
    folder: Path,
    partial: Path | None = None,
    notify: Callable[[str], Notify] = lambda unit: lambda done, total, detail: None,
) -> LatencyTable:
    """Measure the latency table of a space's network, and what whole runs cost if the device runs models.

    Whole networks run between the sweeps over the layers, so that both see the same machine.

    Args:
        space: of which ``options.whole_networks`` members run whole, its smallest and largest first.
        device: open.
        exporter: of the device's ``model_format``; None for a device that runs no models.
        rng: order of visits, members and weights.
        folder: for model files, which are removed again.
        partial: file from which an interrupted profile continues; the caller removes it.
        notify: gives what is told of the progress of each unit, ``"point"`` and ``"network"``.

    Raises:
        DeviceError: the device died, hung, or cannot time a layer or a network. ``partial`` keeps the layers.
    """
    network, count = space.network, options.whole_networks
    if exporter is None or not count:
        return profile(network, device, options, rng=rng, partial=partial, notify=notify("point"))
    members = np.vstack([space.low, space.maximum, space.sample(count, rng)])[:count]
    runs = NetworkRuns(
        network,
        [space.architecture(member) for member in members],
        GuardedDevice(device, options.timeout),
        exporter,
        rounds=options.check_rounds,
        rng=rng,
        folder=folder,
        notify=notify("network"),
    )
    table = profile(
        network, device, options, rng=rng, partial=partial, notify=notify("point"), between=runs.visit
    )
    return _with_whole_run(table, space, members, runs.finish())


def _with_whole_run(
    table: LatencyTable, space: SearchSpace, members: Population, measured: NDArray[np.float64]
) -> LatencyTable:
    name = space.network.name
    sums = replace(table, whole={**table.whole, name: WholeRun()})
    predicted = LatencyPredictor(sums, space).predict(members)
    return replace(table, whole={**table.whole, name: fit(predicted, measured)})


def fit(sums: NDArray[np.float64], measured: NDArray[np.float64]) -> WholeRun:
    """The line with the least mean relative error; medians of whole runs have outliers, too.

    The best line goes through two of the points, or through one and has the least scale. Its constant
    is negative where small networks stay in caches that large ones do not fit into.

    Args:
        sums: milliseconds of all layers of each network, (n,), above 0.
        measured: milliseconds of its whole run, (n,).
    """
    lines = [(_LEAST_SCALE, float(m - _LEAST_SCALE * s)) for s, m in zip(sums, measured, strict=True)]
    for one, other in itertools.combinations(range(len(sums)), 2):
        if sums[one] != sums[other]:
            scale = float((measured[one] - measured[other]) / (sums[one] - sums[other]))
            lines.append((scale, float(measured[one] - scale * sums[one])))
    possible = [(scale, constant) for scale, constant in lines if scale >= _LEAST_SCALE]
    best = min(possible, key=lambda line: float(np.abs((line[0] * sums + line[1]) / measured - 1).mean()))
    return WholeRun(*best)
