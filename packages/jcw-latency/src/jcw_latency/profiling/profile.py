"""``profile_space``: the latency table of a search space's network, with what end-to-end runs cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.weight_groups import GROUP_SIZE
from jcw_core.space.space import Population, SearchSpace
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.options import LatencyOptions
from jcw_latency.profiling.checkpoint import ProfileCheckpoint
from jcw_latency.profiling.layers import LayerProfiler
from jcw_latency.profiling.members import covering_members
from jcw_latency.profiling.networks import PASSES, NetworkRuns
from jcw_latency.profiling.progress import Notify, ignore
from jcw_latency.profiling.time_allowed import TimeAllowed
from jcw_latency.table.end_to_end import EndToEndFit, fit_end_to_end
from jcw_latency.table.predictor import LatencyPredictor
from jcw_latency.table.table import LatencyTable

_SPREAD = 0.8
"""Share of the end-to-end runs that is spread over the layers' first sweeps; the rest runs after the last."""


def profile_space(
    space: SearchSpace,
    device: GuardedDevice,
    options: LatencyOptions,
    *,
    rng: np.random.Generator,
    folder: Path,
    checkpoint: Path | None = None,
    notify: Notify = ignore,
    allowed: TimeAllowed | None = None,
) -> LatencyTable:
    """Measure the latency table of a space's network, and what end-to-end runs cost if the device runs models.

    Networks run end to end between the timed batches of layers, so that both see the same machine. A device
    that runs none may know what they cost.

    Args:
        space: of which ``options.whole_networks`` members run end to end, its corners first.
        device: open.
        options: how to measure; the device has its own timeout.
        rng: order of points, members and weights.
        folder: for model files, which are removed again.
        checkpoint: file from which an interrupted profile continues; ``ProfileCheckpoint.remove`` when the
            table is safe.
        notify: told of the progress of each ``"point"`` and ``"network"``, and what ``checkpoint`` is used for.
        allowed: how long it may take; ``options.seconds`` from now by default.

    Raises:
        DeviceError: the device died, hung, or cannot time a layer or a network. ``checkpoint`` keeps the rest.
        NetworkError: the network has no layers.
    """
    network, count, allowed = space.network, options.whole_networks, allowed or TimeAllowed(options.seconds)
    with ProfileCheckpoint(checkpoint, device.info, network, notify) as kept:
        if device.exporter is None or not count:
            profiler = LayerProfiler(network, device, options, kept, notify=notify, allowed=allowed)
            table = allowed.ended(profiler.table(rng, GROUP_SIZE), profiler.reached, notify)
            return replace(table, end_to_end=device.end_to_end_fits(network))
        members = covering_members(space, count, rng)
        # Of two networks once each there is more to learn than of one network twice: one pass.
        runs = NetworkRuns(
            network, [space.architecture(member) for member in members], device,
            rounds=-(-options.check_rounds // PASSES), passes=1, rng=rng, folder=folder, notify=notify, kept=kept,
            allowed=allowed,
        )  # fmt: skip
        profiler = LayerProfiler(
            network, device, options, kept,
            notify=notify, between=lambda share: runs.advance(_SPREAD * share), allowed=allowed,
        )  # fmt: skip
        table, measured = profiler.table(rng, GROUP_SIZE), runs.finish()
    ran = np.isfinite(measured)
    table = allowed.ended(table, (*profiler.reached, *runs.reached), notify)
    return _with_fit(table, space, members[ran], measured[ran], runs.reference_ms)


def _with_fit(
    table: LatencyTable,
    space: SearchSpace,
    members: Population,
    measured: NDArray[np.float64],
    reference_ms: float,
) -> LatencyTable:
    name = space.network.name
    sums = replace(table, end_to_end={**table.end_to_end, name: EndToEndFit()})
    predicted = LatencyPredictor(sums, space).predict(members)
    found = replace(fit_end_to_end(predicted, measured), reference_ms=reference_ms)
    return replace(table, end_to_end={**table.end_to_end, name: found})
