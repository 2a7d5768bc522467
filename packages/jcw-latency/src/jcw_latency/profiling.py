"""``profile``: time every layer of a network on a device, until the medians are certain enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from jcw_core.errors import DeviceError
from jcw_core.network import Network
from jcw_core.problem import LayerProblem
from jcw_core.protocols import Device
from jcw_core.pruning import GROUP_SIZE
from numpy.typing import NDArray

from jcw_latency.guard import GuardedDevice
from jcw_latency.options import LatencyOptions
from jcw_latency.plan import Plan, PlannedLayer, make_plan
from jcw_latency.samples import Samples
from jcw_latency.table import LatencyTable, LayerGrid, describe

Notify = Callable[[int, int, str], None]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

_VISIT = 3
"""Rounds at one visit. More would be cheaper, but a visit's rounds share whatever disturbs them."""
_BATCH_BYTES = 64 * 2**20
_BATCH_SIZE = 256
_SAVE_SECONDS = 5.0


def profile(
    network: Network,
    device: Device,
    options: LatencyOptions,
    *,
    rng: np.random.Generator,
    partial: Path | None = None,
    notify: Notify = lambda done, total, detail: None,
    step: int = GROUP_SIZE,
) -> LatencyTable:
    """Measure a network's latency table.

    Points are visited in random order, a few rounds at a time, in sweeps over the whole grid, so
    that drift hits all alike. After ``min_rounds`` a sweep visits only the points whose median is
    uncertain and those that break monotonicity: more width or density should not cost less. Such
    points are measured again, never smoothed.

    Args:
        network: at full width.
        device: open.
        rng: the order of visits.
        partial: file from which an interrupted profile continues; the caller removes it.
        notify: told points done, points in this sweep, and a few words.
        step: channels to which widths are rounded.

    Raises:
        DeviceError: the device died, hung, or cannot time a layer. ``partial`` keeps the rest.
    """
    guarded = GuardedDevice(device, options.timeout)
    plan = make_plan(network, widths=options.widths, densities=options.densities, step=step)
    samples = Samples(plan.problems, guarded.info, options.rounds)
    if partial is not None:
        samples.load(partial)
    started = time.monotonic()
    try:
        _sweep(plan, samples, guarded, options, rng, partial, notify)
    finally:
        if partial is not None:
            samples.save(partial)
    settings = {
        "widths": options.widths,
        "densities": options.densities,
        "tolerance": options.tolerance,
        "points": len(plan.problems),
        "rounds": int(samples.counts.sum()),
        "seconds": round(time.monotonic() - started, 1),
        "uncertain": int(uncertain(plan, samples, options).sum()),
        "not_monotone": int(not_monotone(plan, samples, options).sum()),
    }
    return LatencyTable(guarded.info, (network,), _grids(plan, samples), settings=settings)


def _sweep(
    plan: Plan,
    samples: Samples,
    device: GuardedDevice,
    options: LatencyOptions,
    rng: np.random.Generator,
    partial: Path | None,
    notify: Notify,
) -> None:
    saved, sweep = time.monotonic(), 0
    while (which := outstanding(plan, samples, options)).size:
        sweep, done = sweep + 1, 0
        for batch in _batches(rng.permutation(which), plan.problems):
            # Never more than the points need, so that a device without noise is timed no longer.
            rounds = min(_VISIT, int(options.rounds - samples.taken[batch].min()))
            samples.add(batch, device.measure([plan.problems[i] for i in batch], rounds))
            done += len(batch)
            notify(done, len(which), f"sweep {sweep}")
            if partial is not None and time.monotonic() - saved > _SAVE_SECONDS:
                samples.save(partial)
                saved = time.monotonic()
        failed = np.flatnonzero(samples.counts == 0)
        if failed.size:
            raise DeviceError(
                f"device {device.info.name!r} could not time {describe(plan.problems[failed[0]])} "
                f"(density {plan.problems[failed[0]].density:g}), nor {failed.size - 1} other points; "
                "this network cannot be profiled on it"
            )


def _batches(order: Indices, problems: Sequence[LayerProblem]) -> Iterator[Indices]:
    """Runs of ``order`` that fit in memory together."""
    start, size = 0, 0
    for stop, index in enumerate(order):
        size += _bytes(problems[index])
        if stop > start and (size > _BATCH_BYTES or stop - start >= _BATCH_SIZE):
            yield order[start:stop]
            start, size = stop, _bytes(problems[index])
    yield order[start:]


def _bytes(p: LayerProblem) -> int:
    taps = p.in_channels // p.groups * p.kernel_size[0] * p.kernel_size[1]
    weights = p.out_channels * taps if p.op in ("conv2d", "linear") else 0
    outputs = p.out_channels * p.out_height * p.out_width * (2 if p.residual else 1)
    return 4 * (weights + outputs + p.in_channels * p.in_height * p.in_width)


def outstanding(plan: Plan, samples: Samples, options: LatencyOptions) -> Indices:
    """Problems that need more rounds."""
    early = samples.taken < options.min_rounds
    if early.any():
        return np.flatnonzero(early)
    doubtful = uncertain(plan, samples, options) | not_monotone(plan, samples, options)
    return np.flatnonzero(doubtful & (samples.taken < options.rounds))


def uncertain(plan: Plan, samples: Samples, options: LatencyOptions) -> Mask:
    """Problems whose median is not within the tolerance at 95 % confidence."""
    return samples.uncertainty() > _allowed(plan, samples, options)


def _allowed(plan: Plan, samples: Samples, options: LatencyOptions) -> NDArray[np.float64]:
    """Error that each median may have, seconds.

    A share of the median, but no less than the share of a tenth of the network's mean layer: below
    that, precision is spent on what no prediction would notice.
    """
    median = samples.quantiles()[1]
    whole = [median[layer.index.flat[-1]] for layer in plan.layers]
    allowed: NDArray[np.float64] = options.tolerance * np.maximum(median, 0.1 * float(np.mean(whole)))
    return allowed


def not_monotone(plan: Plan, samples: Samples, options: LatencyOptions) -> Mask:
    """Problems that cost more than a neighbour with more width or density, beyond what is uncertain."""
    median, half = samples.quantiles()[1], samples.uncertainty() + _allowed(plan, samples, options)
    found = np.zeros(len(plan.problems), dtype=bool)
    for layer in plan.layers:
        for axis in range(layer.index.ndim):
            index = np.moveaxis(layer.index, axis, 0)
            lower, upper = index[:-1].ravel(), index[1:].ravel()
            lower, upper = lower[lower >= 0], upper[lower >= 0]
            broken = median[lower] - median[upper] > half[lower] + half[upper]
            found[lower[broken]] = found[upper[broken]] = True
    return found


def _grids(plan: Plan, samples: Samples) -> tuple[LayerGrid, ...]:
    low, median, high = samples.quantiles() * 1e3
    return tuple(_grid(layer, median, high - low, samples.counts) for layer in plan.layers)


def _grid(
    layer: PlannedLayer, ms: NDArray[np.float64], spread: NDArray[np.float64], rounds: NDArray[np.int32]
) -> LayerGrid:
    def placed(values: NDArray[np.floating] | NDArray[np.int32]) -> NDArray[np.float64]:
        return np.where(layer.index >= 0, values[layer.index], 0)

    return LayerGrid(layer.problem, layer.axes, placed(ms), placed(spread), placed(rounds).astype(np.int32))
