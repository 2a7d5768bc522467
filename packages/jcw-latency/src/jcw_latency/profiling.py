"""``profile``: time every layer of a network on a device, until the medians are certain enough."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DeviceError
from jcw_core.network import Network
from jcw_core.problem import LayerProblem
from jcw_core.protocols import Device
from jcw_core.pruning import GROUP_SIZE
from jcw_latency.guard import GuardedDevice
from jcw_latency.judge import not_monotone, off_the_grid, outstanding, uncertain
from jcw_latency.options import LatencyOptions
from jcw_latency.plan import Plan, PlannedLayer, distinct_layers, make_plan, plan_of
from jcw_latency.problems import describe
from jcw_latency.refine import coarse_axes, probes, refined
from jcw_latency.samples import Samples
from jcw_latency.table import LatencyTable, LayerGrid
from jcw_latency.visits import Indices, Reference, batches

Notify = Callable[[int, int, str], None]

_VISIT = 3
"""Rounds at one visit. More would be cheaper, but a visit's rounds share whatever disturbs them."""
_RETRIES = 0.25
"""Share of a sweep's visits that are repeated at most because the machine was busy."""
_SAVE_SECONDS = 5.0


def profile(
    network: Network,
    device: Device,
    options: LatencyOptions,
    *,
    rng: np.random.Generator,
    partial: Path | None = None,
    notify: Notify = lambda done, total, detail: None,
    between: Callable[[float], None] = lambda share: None,
    step: int = GROUP_SIZE,
) -> LatencyTable:
    """Measure a network's latency table.

    Points are visited in random order, a few rounds at a time, in sweeps over the whole grid, so
    that drift hits all alike. A visit at which a reference layer is slower than usual is repeated
    later: the machine was busy or clocked down. After ``min_rounds`` a sweep visits only the points
    whose median is uncertain and those that break monotonicity: more width or density should not
    cost less. Such points are measured again, never smoothed.

    Args:
        network: at full width.
        device: open.
        rng: the order of visits.
        partial: file from which an interrupted profile continues; the caller removes it.
        notify: told points done, points in this sweep, and a few words.
        between: called after each visit, for what should see the same machine; told the share that is done
            of ``min_rounds`` rounds of the full grids, or of the coarse ones where they are refined.
        step: channels to which widths are rounded.

    Raises:
        DeviceError: the device died, hung, or cannot time a layer. ``partial`` keeps the rest.
    """
    guarded = GuardedDevice(device, options.timeout)
    profiler = _Profiler(guarded, options, partial, notify, between, list(distinct_layers(network)))
    started = time.monotonic()
    if options.adaptive:
        plan = _refine(profiler, network, step, rng)
    else:
        plan = make_plan(
            network,
            widths=options.widths,
            densities=options.densities,
            step=step,
            placement=options.placement,
        )
        profiler.run(plan, rng)
    samples, reference = profiler.samples, profiler.reference
    settings = {
        "grid": "adaptive"
        if options.adaptive
        else f"{options.widths} widths, {options.densities} densities, {options.placement}",
        "tolerance": options.tolerance,
        "points": len(plan.problems),
        "rounds": int(samples.counts.sum()),
        "seconds": round(time.monotonic() - started, 1),
        "uncertain": int(uncertain(plan, samples, options).sum()),
        "not_monotone": int(not_monotone(plan, samples, options).sum()),
        "drift": round(reference.drift, 4),
        "disturbed_visits": reference.disturbed,
    }
    return LatencyTable(guarded.info, (network,), _grids(plan, samples), settings=settings)


def _refine(profiler: _Profiler, network: Network, step: int, rng: np.random.Generator) -> Plan:
    """Measure coarse grids and split their cells until the probes in them are predicted well enough."""
    axes = coarse_axes(network, step)
    while True:
        held_out = probes(axes, step)
        plan = plan_of(axes, [probe.problem for probe in held_out])
        profiler.run(plan, rng)
        places = list(plan.probes)
        median = profiler.samples.quantiles()[1, places] * 1e3
        # What the noise of a probe explains does not call for a finer grid, nor does what a network would not notice.
        allowed_s = off_the_grid(plan, profiler.samples, profiler.options) + profiler.samples.uncertainty()
        grids = _grids(plan, profiler.samples)
        better = refined(axes, grids, held_out, median, allowed_s[places] * 1e3)
        if better == axes:
            return plan
        axes = better


class _Profiler:
    """One profile under way."""

    def __init__(
        self,
        device: GuardedDevice,
        options: LatencyOptions,
        partial: Path | None,
        notify: Notify,
        between: Callable[[float], None],
        layers: Sequence[LayerProblem],
    ) -> None:
        self.device, self.options, self.partial = device, options, partial
        self.notify, self.between = notify, between
        self.reference = Reference(layers, options.busy)
        self.plan = plan_of({})
        self.samples = Samples((), device.info, options.rounds)
        self._saved = time.monotonic()

    def run(self, plan: Plan, rng: np.random.Generator) -> None:
        """Time a plan's problems, those left out that an earlier plan had."""
        samples = Samples(plan.problems, self.device.info, self.options.rounds)
        if self.partial is not None:
            samples.load(self.partial)
        samples.carry(self.samples)
        self.plan, self.samples = plan, samples
        try:
            self._run(rng)
        finally:
            self.save()

    def _run(self, rng: np.random.Generator) -> None:
        sweep = 0
        while (which := outstanding(self.plan, self.samples, self.options)).size:
            sweep += 1
            self._sweep(deque(batches(rng.permutation(which), self.plan.problems)), f"sweep {sweep}")
            self._refuse_failures()

    def save(self) -> None:
        if self.partial is not None:
            self.samples.save(self.partial)
            self._saved = time.monotonic()

    def _sweep(self, queue: deque[Indices], detail: str) -> None:
        done, total = 0, sum(map(len, queue))
        retries = int(_RETRIES * len(queue)) + 1
        while queue:
            batch = queue.popleft()
            # Never more than the points may have.
            rounds = min(_VISIT, int(self.options.rounds - self.samples.taken[batch].min()))
            problems = [self.plan.problems[i] for i in batch]
            seconds = self.reference.visit(self.device, problems, rounds)
            if self.reference.is_disturbed and retries:
                retries -= 1
                self.reference.disturbed += 1
                queue.append(batch)
                continue
            self.samples.add(batch, seconds)
            done += len(batch)
            self.notify(done, total, detail)
            self.between(float(np.minimum(self.samples.taken / self.options.min_rounds, 1).mean()))
            if time.monotonic() - self._saved > _SAVE_SECONDS:
                self.save()

    def _refuse_failures(self) -> None:
        failed = np.flatnonzero(self.samples.counts == 0)
        if failed.size:
            first = self.plan.problems[failed[0]]
            raise DeviceError(
                f"device {self.device.info.name!r} could not time {describe(first)} (density {first.density:g}), "
                f"nor {failed.size - 1} other points; this network cannot be profiled on it"
            )


def _grids(plan: Plan, samples: Samples) -> tuple[LayerGrid, ...]:
    low, median, high = samples.quantiles() * 1e3
    return tuple(_grid(layer, median, high - low, samples.counts) for layer in plan.layers)


def _grid(
    layer: PlannedLayer, ms: NDArray[np.float64], spread: NDArray[np.float64], rounds: NDArray[np.int32]
) -> LayerGrid:
    def placed(values: NDArray[np.floating] | NDArray[np.int32]) -> NDArray[np.float64]:
        return np.where(layer.index >= 0, values[layer.index], 0)

    return LayerGrid(layer.problem, layer.axes, placed(ms), placed(spread), placed(rounds).astype(np.int32))
