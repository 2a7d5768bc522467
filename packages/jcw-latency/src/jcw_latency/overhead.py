"""What a whole run costs beside its layers, measured on a few networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from jcw_core.protocols import Device, Exporter
from jcw_core.space import SearchSpace

from jcw_latency.fidelity import Fidelity, Notify, check
from jcw_latency.guard import GuardedDevice
from jcw_latency.options import LatencyOptions
from jcw_latency.predictor import LatencyPredictor
from jcw_latency.table import LatencyTable


def with_overhead(
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
    """A table with the constant that a whole network costs beside the sum of its layers.

    Args:
        table: of the space's network.
        device: open; it runs models.
        exporter: of the device's ``model_format``.
        space: of which ``options.overhead_networks`` members run whole; its smallest and largest first.
        rng: source of the other members and of weights.
        folder: for model files, which are removed again.

    Raises:
        DeviceError: a network could not be timed.
    """
    if not options.overhead_networks:
        return table
    without = replace(table, overhead_ms=0.0)
    members = np.vstack([space.low, space.maximum, space.sample(options.overhead_networks, rng)])
    found = check(
        LatencyPredictor(without, space),
        GuardedDevice(device, options.timeout),
        exporter,
        members[: options.overhead_networks],
        rounds=options.check_rounds,
        rng=rng,
        folder=folder,
        notify=notify,
    )
    return replace(table, overhead_ms=constant_ms(found))


def constant_ms(found: Fidelity) -> float:
    """The constant with the least mean relative error, milliseconds; at least 0.

    It is the median of what the layers leave over, weighted by one over the measured time.
    """
    rest = np.array([p.measured_ms - p.predicted_ms for p in found.points])
    weight = np.array([1 / p.measured_ms for p in found.points])
    order = np.argsort(rest)
    reached = np.cumsum(weight[order]) >= weight.sum() / 2
    return max(0.0, float(rest[order][np.argmax(reached)]))
