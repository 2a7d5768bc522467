"""What a whole run costs beyond the sum of its layers, measured on a few networks."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.protocols import Device, Exporter
from jcw_core.space import SearchSpace
from jcw_latency.fidelity import Notify, check
from jcw_latency.guard import GuardedDevice
from jcw_latency.options import LatencyOptions
from jcw_latency.predictor import LatencyPredictor
from jcw_latency.table import LatencyTable, WholeRun

_LEAST_SCALE = 0.5
"""Layers that cost twice as much alone as in a network were not timed right; do not follow them further."""


def with_whole_run(
    table: LatencyTable,
    device: Device,
    exporter: Exporter,
    space: SearchSpace,
    options: LatencyOptions,
    *,
    rng: np.random.Generator,
    folder: Path,
    notify: Notify = lambda done, total, detail: None,
) -> LatencyTable:
    """A table that knows what whole runs of a space's network cost, given their layers.

    Args:
        table: of the space's network.
        device: open; it runs models.
        exporter: of the device's ``model_format``.
        space: of which ``options.whole_networks`` members run; its smallest and largest first.
        rng: source of the other members and of weights.
        folder: for model files, which are removed again.

    Raises:
        DeviceError: a network could not be timed.
    """
    count = options.whole_networks
    if not count:
        return table
    name = space.network.name
    sums = replace(table, whole={**table.whole, name: WholeRun()})
    members = np.vstack([space.low, space.maximum, space.sample(count, rng)])[:count]
    found = check(
        LatencyPredictor(sums, space),
        GuardedDevice(device, options.timeout),
        exporter,
        members,
        rounds=options.check_rounds,
        rng=rng,
        folder=folder,
        notify=notify,
    )
    pairs = np.array([(p.predicted_ms, p.measured_ms) for p in found.points])
    return replace(table, whole={**table.whole, name: fit(pairs[:, 0], pairs[:, 1])})


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
