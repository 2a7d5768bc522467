"""``profile``: time every layer of a network on a device, until the medians are certain enough."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from jcw_core.errors import DeviceError, NetworkError
from jcw_core.logs import logger
from jcw_core.network.graph import Network
from jcw_core.network.problem import LayerProblem
from jcw_core.network.problem_text import describe
from jcw_core.network.weight_groups import GROUP_SIZE
from jcw_core.protocols import Device, Progress
from jcw_core.shown import count_of
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.options import LatencyOptions
from jcw_latency.profiling.adaptive import coarse_axes, probes, refined
from jcw_latency.profiling.checkpoint import ProfileCheckpoint
from jcw_latency.profiling.convergence import Convergence
from jcw_latency.profiling.grid import Plan, distinct_layers, make_plan, measured_grids, plan_of
from jcw_latency.profiling.progress import Notify, ignore
from jcw_latency.profiling.reference import Indices, Reference, batches
from jcw_latency.profiling.samples import Samples
from jcw_latency.profiling.time_allowed import TimeAllowed
from jcw_latency.table.table import LatencyTable
from jcw_latency.table.text import unprintable

_log = logger(__name__)

_ROUNDS = 3
"""Rounds of one timed batch. More would be cheaper, but a batch's rounds share whatever disturbs them."""
_RETRIES = 0.25
"""Share of a sweep's batches that are repeated at most because the machine was busy."""


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
        self._network, self._device, self._options, self._kept = network, device, options, kept
        self._notify, self._between = notify, between
        self._allowed = allowed or TimeAllowed()
        self._reference = Reference(layers, options.busy)
        self._convergence = Convergence(plan_of({}), Samples(0, options.rounds), options)
        self._keys: Sequence[int] = ()
        self._done_before: float | None = None
        self._is_cut = False

    def table(self, rng: np.random.Generator, step: int) -> LatencyTable:
        """Time all that the options ask for. Raises as ``profile``."""
        options, started = self._options, time.monotonic()
        if options.adaptive:
            self._refine(step, rng)
        else:
            self._run(
                make_plan(
                    self._network,
                    widths=options.widths,
                    densities=options.densities,
                    step=step,
                    placement=options.placement,
                ),
                rng,
            )
        grids = measured_grids(self._convergence.plan, self._convergence.samples)
        settings = self._settings(round(time.monotonic() - started, 1))
        _log.info(
            "measured %s on %s: %d layers, %d points",
            self._network.name, self._device.info.name, len(grids), settings["points"],
        )  # fmt: skip
        return LatencyTable(self._device.info, (self._network,), grids, settings=settings)

    @property
    def reached(self) -> tuple[str, ...]:
        """How far the points came, in words, if time cut the profile short; nothing if it did not."""
        if not self._is_cut:
            return ()
        taken = self._convergence.samples.taken
        least, most = int(taken.min()), int(taken.max())
        times = count_of(most, "time") if least == most else f"{least} to {most} times"
        return (f"{count_of(len(taken), 'point')} timed {times}",)

    def _settings(self, seconds: float) -> dict[str, object]:
        options, found = self._options, self._convergence
        full = f"{options.widths} widths, {options.densities} densities, {options.placement}"
        return {
            "grid": "adaptive" if options.adaptive else full,
            "tolerance": options.tolerance,
            "points": len(found.plan.problems),
            "rounds": int(found.samples.counts.sum()),
            "seconds": seconds,
            "uncertain": int(found.uncertain().sum()),
            "not_monotone": int(found.not_monotone().sum()),
            "drift": round(self._reference.drift, 4),
            "disturbed_visits": self._reference.disturbed,
        }

    def _refine(self, step: int, rng: np.random.Generator) -> None:
        """Measure coarse grids and split their cells until the probes in them are predicted well enough."""
        axes = coarse_axes(self._network, step)
        before: Convergence | None = None
        while True:
            held_out = probes(axes, step)
            plan = plan_of(axes, [probe.problem for probe in held_out])
            self._run(plan, rng, is_needed=before is None)
            if before is not None and not self._convergence.samples.taken.all():
                self._convergence = before  # finer grids would have gaps
                return
            places, samples = list(plan.probes), self._convergence.samples
            median = samples.quantiles()[1, places] * 1e3
            # What the noise of a probe explains does not call for a finer grid, nor does what a network would not notice.
            allowed_s = self._convergence.interpolation_tolerance() + samples.half_widths()
            grids = measured_grids(plan, samples)
            better = refined(axes, grids, held_out, median, allowed_s[places] * 1e3)
            if better == axes:
                return
            if self._allowed.is_over:
                self._is_cut = True
                return
            axes, before = better, self._convergence

    def _run(self, plan: Plan, rng: np.random.Generator, *, is_needed: bool = True) -> None:
        """Time a plan's problems, as far as an earlier plan or profile has not.

        When the time is over it ends; if there is no table without the plan (``is_needed``), not before each has been timed.
        """
        self._keys = self._kept.point_keys(plan.problems)
        samples = self._kept.samples("point", self._keys, self._options.rounds)
        self._convergence = Convergence(plan, samples, self._options)
        sweep = 0
        while (which := self._convergence.needs_more_rounds()).size and not self._may_end(is_needed):
            sweep += 1
            queue = deque(batches(rng.permutation(which), plan.problems))
            self._sweep(queue, f"sweep {sweep}", is_needed)
            self._refuse_failures()
        self._is_cut = which.size > 0

    def _may_end(self, is_needed: bool) -> bool:
        return self._allowed.is_over and (not is_needed or bool(self._convergence.samples.taken.all()))

    def _sweep(self, queue: deque[Indices], detail: str, is_needed: bool) -> None:
        before = self._done_before = (
            self._convergence.done if self._done_before is None else self._done_before
        )
        done, total = 0, sum(map(len, queue))
        retries = int(_RETRIES * len(queue)) + 1
        while queue and not self._may_end(is_needed):
            batch = queue.popleft()
            seconds = self._reference.time_with(self._device, *self._wanted(batch))
            if self._reference.is_disturbed and retries and not self._allowed.is_over:
                retries -= 1
                self._reference.disturbed += 1
                queue.append(batch)
                continue
            self._convergence.samples.add(batch, seconds)
            self._kept.keep("point", self._keys, self._convergence.samples, batch)
            done += len(batch)
            self._notify(Progress("profile", "point", done, total, detail))
            self._between((self._convergence.done - before) / max(1 - before, 1e-9))
            self._kept.save_if_due()

    def _wanted(self, batch: Indices) -> tuple[list[LayerProblem], int]:
        """The problems of a batch, and the rounds that it is timed for: never more than its points may have."""
        found = self._convergence
        rounds = min(_ROUNDS, int(self._options.rounds - found.samples.taken[batch].min()))
        return [found.plan.problems[i] for i in batch], rounds

    def _refuse_failures(self) -> None:
        found = self._convergence
        failed = np.flatnonzero((found.samples.counts == 0) & (found.samples.taken > 0))
        if failed.size:
            first = found.plan.problems[failed[0]]
            raise DeviceError(
                f"device {self._device.info.name!r} could not time {describe(first)} (density {first.density:g}), "
                f"nor {failed.size - 1} other points; this network cannot be profiled on it"
            )
