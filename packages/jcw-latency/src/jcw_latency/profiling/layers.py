"""``profile``: time every layer of a network on a device, until the medians are certain enough."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DeviceError, NetworkError
from jcw_core.network.graph import Network
from jcw_core.network.problem import LayerProblem
from jcw_core.network.problem_text import describe
from jcw_core.network.weight_groups import GROUP_SIZE
from jcw_core.protocols import Device
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.options import LatencyOptions
from jcw_latency.profiling.adaptive import coarse_axes, probes, refined
from jcw_latency.profiling.checkpoint import Partial
from jcw_latency.profiling.convergence import not_monotone, off_the_grid, outstanding, uncertain
from jcw_latency.profiling.grid import Plan, PlannedLayer, distinct_layers, make_plan, plan_of
from jcw_latency.profiling.reference import Indices, Reference, batches
from jcw_latency.profiling.samples import Samples
from jcw_latency.table.table import LatencyTable, LayerGrid

Notify = Callable[[int, int, str], None]

_VISIT = 3
"""Rounds at one visit. More would be cheaper, but a visit's rounds share whatever disturbs them."""
_RETRIES = 0.25
"""Share of a sweep's visits that are repeated at most because the machine was busy."""


def profile(
    network: Network,
    device: Device,
    options: LatencyOptions,
    *,
    rng: np.random.Generator,
    partial: Path | None = None,
    notify: Notify = lambda done, total, detail: None,
    tell: Callable[[str], None] = lambda message: None,
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
        partial: file from which an interrupted profile continues; ``Partial.remove`` when the table is safe.
        notify: told points done, points in this sweep, and a few words.
        tell: told in one line what ``partial`` is used for, if there is one.
        step: channels to which widths are rounded.

    Raises:
        DeviceError: the device died, hung, or cannot time a layer. ``partial`` keeps the rest.
        NetworkError: the network has no layers.
    """
    guarded = GuardedDevice(device, options.timeout)
    with Partial(partial, guarded.info, network, tell) as kept:
        return profile_layers(network, guarded, options, kept, rng=rng, notify=notify, step=step)


def profile_layers(
    network: Network,
    device: GuardedDevice,
    options: LatencyOptions,
    kept: Partial,
    *,
    rng: np.random.Generator,
    notify: Notify,
    between: Callable[[float], None] = lambda share: None,
    step: int = GROUP_SIZE,
) -> LatencyTable:
    """As ``profile``, with something else between the visits.

    Args:
        kept: timings so far.
        between: called after each visit, for what should see the same machine; told the share that is done
            of ``min_rounds`` rounds of the full grids, or of the coarse ones where they are refined. What an
            earlier profile has done does not count.
    """
    layers = list(distinct_layers(network))
    if not layers:
        raise NetworkError(f"{network.name}: no layer between input and output, so there is nothing to time")
    profiler = _Profiler(device, options, kept, notify, between, layers)
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
    return LatencyTable(device.info, (network,), _grids(plan, samples), settings=settings)


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
        kept: Partial,
        notify: Notify,
        between: Callable[[float], None],
        layers: Sequence[LayerProblem],
    ) -> None:
        self.device, self.options, self.kept = device, options, kept
        self.notify, self.between = notify, between
        self.reference = Reference(layers, options.busy)
        self.plan = plan_of({})
        self.samples = Samples(0, options.rounds)
        self._keys: list[int] = []
        self._done_before: float | None = None

    def run(self, plan: Plan, rng: np.random.Generator) -> None:
        """Time a plan's problems, as far as an earlier plan or profile has not."""
        self.plan, self._keys = plan, self.kept.point_keys(plan.problems)
        self.samples = self.kept.samples("point", self._keys, self.options.rounds)
        sweep = 0
        while (which := outstanding(self.plan, self.samples, self.options)).size:
            sweep += 1
            self._sweep(deque(batches(rng.permutation(which), self.plan.problems)), f"sweep {sweep}")
            self._refuse_failures()

    def _sweep(self, queue: deque[Indices], detail: str) -> None:
        if self._done_before is None:
            self._done_before = self._done
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
            self.kept.keep("point", self._keys, self.samples, batch)
            done += len(batch)
            self.notify(done, total, detail)
            self.between((self._done - self._done_before) / max(1 - self._done_before, 1e-9))
            self.kept.save_now_and_then()

    @property
    def _done(self) -> float:
        """Share of the least rounds of all problems that are taken."""
        return float(np.minimum(self.samples.taken / self.options.min_rounds, 1).mean())

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
