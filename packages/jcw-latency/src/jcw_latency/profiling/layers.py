"""``profile``: time every layer of a network on a device, until the medians are certain enough."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from jcw_core.errors import NetworkError
from jcw_core.logs import logger
from jcw_core.network.graph import Network
from jcw_core.network.weight_groups import GROUP_SIZE
from jcw_core.protocols import Device
from jcw_core.shown import count_of
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.options import LatencyOptions
from jcw_latency.profiling.adaptive import coarse_axes, probes, refined
from jcw_latency.profiling.checkpoint import ProfileCheckpoint
from jcw_latency.profiling.convergence import Convergence
from jcw_latency.profiling.grid import Plan, distinct_layers, make_plan, measured_grids, plan_of
from jcw_latency.profiling.progress import Notify, ignore
from jcw_latency.profiling.sweeps import Sweeps
from jcw_latency.profiling.time_allowed import TimeAllowed
from jcw_latency.table.table import LatencyTable
from jcw_latency.table.text import unprintable

_log = logger(__name__)

_SPARE = 2
"""By how much the first sweep of full grids must be expected to take less than the time that is left."""


def profile(
    network: Network,
    device: Device,
    options: LatencyOptions,
    *,
    rng: np.random.Generator,
    checkpoint: Path | None = None,
    notify: Notify = ignore,
    step: int = GROUP_SIZE,
) -> LatencyTable:
    """Measure a network's latency table.

    Points are timed in random order, a few rounds of a batch at a time, in sweeps over the whole grid,
    so that drift hits all alike. A batch in which a reference layer is slower than usual is repeated
    later: the machine was busy or clocked down. After ``min_rounds`` a sweep times only the points
    whose median is uncertain and those that break monotonicity: more width or density should not
    cost less. Such points are measured again, never smoothed. After ``options.seconds`` it ends with what it
    has, once every point has been timed.

    Args:
        network: at full width.
        device: open.
        rng: the order of points.
        checkpoint: file from which an interrupted profile continues; ``ProfileCheckpoint.remove`` when the
            table is safe.
        notify: told of each sweep how many points are done, and what ``checkpoint`` is used for.
        step: channels to which widths are rounded.

    Raises:
        DeviceError: the device died, hung, or cannot time a layer. ``checkpoint`` keeps the rest.
        NetworkError: the network has no layers.
    """
    guarded, allowed = GuardedDevice(device, options.timeout), TimeAllowed(options.seconds)
    with ProfileCheckpoint(checkpoint, guarded.info, network, notify) as kept:
        profiler = LayerProfiler(network, guarded, options, kept, notify=notify, allowed=allowed)
        return allowed.ended(profiler.table(rng, step), profiler.reached, notify)


class LayerProfiler:
    """One profile under way.

    Args:
        network: at full width.
        device: what is timed on.
        kept: timings so far.
        notify: as for ``profile``.
        between: called after each batch, for what should see the same machine; told the share that is done
            of ``min_rounds`` rounds of the full grids, or of the coarse ones where they are refined. What an
            earlier profile has done does not count.
        allowed: the time after which no more is measured than a table needs.

    Raises:
        NetworkError: the network has no layers, or a name that no table may hold.
    """

    def __init__(
        self,
        network: Network,
        device: GuardedDevice,
        options: LatencyOptions,
        kept: ProfileCheckpoint,
        *,
        notify: Notify = ignore,
        between: Callable[[float], None] = lambda share: None,
        allowed: TimeAllowed | None = None,
    ) -> None:
        layers = list(distinct_layers(network))
        if not layers:
            raise NetworkError(
                f"{network.name}: no layer between input and output, so there is nothing to time"
            )
        if (problem := unprintable([network.name, *(node.name for node in network)])) is not None:
            raise NetworkError(f"a name in the network cannot stand in a latency table: {problem}; rename it")
        self._network, self._device, self._options = network, device, options
        self._allowed = allowed or TimeAllowed()
        self._sweeps = Sweeps(
            layers, device, options, kept, notify=notify, between=between, allowed=self._allowed
        )
        self._is_coarser = False

    def table(self, rng: np.random.Generator, step: int) -> LatencyTable:
        """Time all that the options ask for. Raises as ``profile``."""
        options, started = self._options, time.monotonic()
        if options.adaptive:
            self._refine(step, rng)
        else:
            plan = make_plan(
                self._network, widths=options.widths, densities=options.densities, step=step, placement=options.placement
            )  # fmt: skip
            if self._allowed.seconds is None:
                self._sweeps.run(plan, rng)
            else:
                self._run_in_time(plan, step, rng)
        grids = measured_grids(self._sweeps.convergence.plan, self._sweeps.convergence.samples)
        settings = self._settings(round(time.monotonic() - started, 1))
        _log.info(
            "measured %s on %s: %d layers, %d points",
            self._network.name, self._device.info.name, len(grids), settings["points"],
        )  # fmt: skip
        return LatencyTable(self._device.info, (self._network,), grids, settings=settings)

    @property
    def reached(self) -> tuple[str, ...]:
        """How far the points came, in words, if time cut the profile short; nothing if it did not."""
        if not self._sweeps.is_cut:
            return ()
        taken = self._sweeps.convergence.samples.taken
        least, most = int(taken.min()), int(taken.max())
        times = count_of(most, "time") if least == most else f"{least} to {most} times"
        where = " of coarser grids" if self._is_coarser else ""
        return (f"{count_of(len(taken), 'point')}{where} timed {times}",)

    def _settings(self, seconds: float) -> dict[str, object]:
        options, found = self._options, self._sweeps.convergence
        full = f"{options.widths} widths, {options.densities} densities, {options.placement}"
        return {
            "grid": "adaptive" if options.adaptive or self._is_coarser else full,
            "tolerance": options.tolerance,
            "points": len(found.plan.problems),
            "rounds": int(found.samples.counts.sum()),
            "seconds": seconds,
            "uncertain": int(found.uncertain().sum()),
            "not_monotone": int(found.not_monotone().sum()),
            "drift": round(self._sweeps.reference.drift, 4),
            "disturbed_visits": self._sweeps.reference.disturbed,
        }

    def _run_in_time(self, plan: Plan, step: int, rng: np.random.Generator) -> None:
        """Measure full grids where the time is enough for a sweep, as coarse ones tell; else refine those as long as it lasts."""
        coarse, left = plan_of(coarse_axes(self._network, step)), self._allowed.left
        untimed = self._sweeps.untimed(coarse)
        self._sweeps.run(coarse, rng, is_first=True)
        before, each = self._sweeps.convergence, (left - self._allowed.left) / max(untimed, 1)
        is_enough = _SPARE * each * self._sweeps.untimed(plan) <= self._allowed.left
        if not (is_enough and self._sweeps.run(plan, rng, before)):
            self._refine(step, rng, before)
            self._is_coarser = True

    def _refine(self, step: int, rng: np.random.Generator, before: Convergence | None = None) -> None:
        """Measure coarse grids and split their cells until the probes in them are predicted well enough."""
        axes = coarse_axes(self._network, step)
        while True:
            held_out = probes(axes, step)
            plan = plan_of(axes, [probe.problem for probe in held_out])
            if not self._sweeps.run(plan, rng, before):
                return
            places, samples = list(plan.probes), self._sweeps.convergence.samples
            median = samples.quantiles()[1, places] * 1e3
            # What the noise of a probe explains does not call for a finer grid, nor does what a network would not notice.
            allowed_s = self._sweeps.convergence.interpolation_tolerance() + samples.half_widths()
            grids = measured_grids(plan, samples)
            better = refined(axes, grids, held_out, median, allowed_s[places] * 1e3)
            if better == axes:
                return
            if self._allowed.is_over:
                self._sweeps.is_cut = True
                return
            axes, before = better, self._sweeps.convergence
