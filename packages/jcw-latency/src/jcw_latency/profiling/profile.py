"""What a whole run costs beyond the sum of its layers, measured on a few networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.protocols import Device, Exporter
from jcw_core.space.space import Population, SearchSpace
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.devices.recorded import RecordedDevice
from jcw_latency.options import LatencyOptions
from jcw_latency.profiling.checkpoint import Partial
from jcw_latency.profiling.layers import profile, profile_layers
from jcw_latency.profiling.networks import PASSES, NetworkRuns, Notify
from jcw_latency.table.end_to_end import WholeRun
from jcw_latency.table.predictor import LatencyPredictor
from jcw_latency.table.table import LatencyTable

_LEAST_SCALE = 0.5
"""Layers that cost twice as much alone as in a network were not timed right; do not follow them further."""
_LEAST_OF_MEASURED = 0.01
"""Share of the smallest network's run that the fit must leave of it."""
_LEAST_FOR_BEND = 9
"""Fewer networks would have their noise taken for a bend."""
_SPREAD = 0.8
"""Share of the whole runs that is spread over the layers' first sweeps; the rest runs after the last."""
_STEPS = 30
"""Of the robust fit, which changes little after ten."""


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
    tell: Callable[[str], None] = lambda message: None,
) -> LatencyTable:
    """Measure the latency table of a space's network, and what whole runs cost if the device runs models.

    Whole networks run between the visits to the layers, so that both see the same machine. The device
    ``recorded`` runs none, but its table may know what they cost.

    Args:
        space: of which ``options.whole_networks`` members run whole, its smallest and largest first.
        device: open.
        exporter: of the device's ``model_format``; None for a device that runs no models.
        rng: order of visits, members and weights.
        folder: for model files, which are removed again.
        partial: file from which an interrupted profile continues; ``Partial.remove`` when the table is safe.
        notify: gives what is told of the progress of each unit, ``"point"`` and ``"network"``.
        tell: told in one line what ``partial`` is used for, if there is one.

    Raises:
        DeviceError: the device died, hung, or cannot time a layer or a network. ``partial`` keeps the rest.
        NetworkError: the network has no layers.
    """
    network, count = space.network, options.whole_networks
    if exporter is None or not count:
        table = profile(network, device, options, rng=rng, partial=partial, notify=notify("point"), tell=tell)
        return (
            replace(table, whole=device.whole_runs(network)) if isinstance(device, RecordedDevice) else table
        )
    members = np.vstack([space.low, space.maximum, space.sample(count, rng)])[:count]
    guarded = GuardedDevice(device, options.timeout)
    with Partial(partial, guarded.info, network, tell) as kept:
        runs = NetworkRuns(
            network,
            [space.architecture(member) for member in members],
            guarded,
            exporter,
            rounds=-(-options.check_rounds // PASSES),
            # Of two networks once each there is more to learn than of one network twice.
            passes=1,
            rng=rng,
            folder=folder,
            notify=notify("network"),
            kept=kept,
        )
        table = profile_layers(
            network, guarded, options, kept, rng=rng, notify=notify("point"),
            between=lambda share: runs.advance(_SPREAD * share),
        )  # fmt: skip
        measured = runs.finish()
    return _with_whole_run(table, space, members, measured, runs.reference_ms)


def _with_whole_run(
    table: LatencyTable,
    space: SearchSpace,
    members: Population,
    measured: NDArray[np.float64],
    reference_ms: float,
) -> LatencyTable:
    name = space.network.name
    sums = replace(table, whole={**table.whole, name: WholeRun()})
    predicted = LatencyPredictor(sums, space).predict(members)
    found = replace(fit(predicted, measured), reference_ms=reference_ms)
    return replace(table, whole={**table.whole, name: found})


def fit(sums: NDArray[np.float64], measured: NDArray[np.float64]) -> WholeRun:
    """The cost of whole runs that fits best by relative error, outliers counting less (Huber 1964).

    The bend and then the overhead are left out where there are too few networks for them, or where the
    rest would have to be impossible to go with them, as is a smallest network that takes no time.

    Args:
        sums: milliseconds of all layers of each network, (n,), above 0.
        measured: milliseconds of its whole run, (n,).
    """
    unit, smallest = float(sums.mean()), int(sums.argmin())
    terms = np.stack([sums / unit, np.ones_like(sums), (sums / unit) ** 2], axis=1) / measured[:, None]
    most = 3 if len(sums) >= _LEAST_FOR_BEND else min(len(sums), 2)
    for count in range(most, 0, -1):
        factors = _robust(terms[:, :count])
        scale, overhead, bend = (*factors, 0.0, 0.0)[:3]
        takes_time = terms[smallest, :count] @ factors > _LEAST_OF_MEASURED
        if scale / unit >= _LEAST_SCALE and bend >= 0 and takes_time:
            break
    return WholeRun(
        max(float(scale) / unit, _LEAST_SCALE),
        float(overhead),
        max(float(bend), 0.0) / unit**2,
        smallest_ms=float(sums[smallest]),
    )


def _robust(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Factors of ``terms`` (n, k) whose sum is about 1 everywhere, by iteratively reweighted least squares."""
    weights = np.ones(len(terms))
    for _ in range(_STEPS):
        roots = np.sqrt(weights)
        factors = np.linalg.lstsq(terms * roots[:, None], roots, rcond=None)[0].astype(np.float64)
        errors = np.abs(terms @ factors - 1)
        weights = 1 / np.maximum(errors / (1.5 * np.median(errors) + 1e-12), 1)
    return factors
