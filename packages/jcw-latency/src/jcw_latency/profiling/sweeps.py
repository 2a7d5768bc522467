"""``Sweeps``: the points of one plan after another timed in sweeps, until the medians are certain enough or time is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from jcw_core.errors import DeviceError
from jcw_core.network.problem import LayerProblem
from jcw_core.network.problem_text import describe
from jcw_core.protocols import Progress
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.options import LatencyOptions
from jcw_latency.profiling.checkpoint import ProfileCheckpoint
from jcw_latency.profiling.convergence import Convergence
from jcw_latency.profiling.grid import Plan, plan_of
from jcw_latency.profiling.progress import Notify
from jcw_latency.profiling.reference import Indices, Reference, batches
from jcw_latency.profiling.samples import Samples
from jcw_latency.profiling.time_allowed import TimeAllowed

_ROUNDS = 3
"""Rounds of one timed batch. More would be cheaper, but a batch's rounds share whatever disturbs them."""
_RETRIES = 0.25
"""Share of a sweep's batches that are repeated at most because the machine was busy."""


class Sweeps:
    """What is timed of one network.

    Args:
        layers: of the network at full width.
        device: what is timed on.
        options: how certain medians must be.
        kept: timings so far.
        notify: told of each sweep how many points are done.
        between: as for ``LayerProfiler``.
        allowed: the time after which no more is measured than a table needs.
    """

    def __init__(
        self,
        layers: Sequence[LayerProblem],
        device: GuardedDevice,
        options: LatencyOptions,
        kept: ProfileCheckpoint,
        *,
        notify: Notify,
        between: Callable[[float], None],
        allowed: TimeAllowed,
    ) -> None:
        self.reference = Reference(layers, options.busy)
        self.convergence = Convergence(plan_of({}), Samples(0, options.rounds), options)
        """Of the last plan of which every point has been timed."""
        self.is_cut = False
        """Whether time was over before its points were certain enough."""
        self._device, self._options, self._kept = device, options, kept
        self._notify, self._between, self._allowed = notify, between, allowed
        self._keys: Sequence[int] = ()
        self._done_before: float | None = None

    def untimed(self, plan: Plan) -> int:
        """How many of a plan's problems have never been timed."""
        return int((self._kept.samples("point", self._kept.point_keys(plan.problems), 1).taken == 0).sum())

    def run(
        self,
        plan: Plan,
        rng: np.random.Generator,
        before: Convergence | None = None,
        *,
        is_first: bool = False,
    ) -> bool:
        """Time a plan's problems, as far as an earlier plan or profile has not. Raises as ``profile``.

        Args:
            plan: what is to be timed.
            rng: the order of points.
            before: what stands when the time is over before each problem has been timed; without, it is overstepped.
            is_first: one sweep is enough, since another plan comes after it.

        Returns:
            False where ``before`` stands.
        """
        self._keys = self._kept.point_keys(plan.problems)
        samples = self._kept.samples("point", self._keys, self._options.rounds)
        self.convergence = Convergence(plan, samples, self._options)
        sweep, is_needed = 0, before is None
        while (which := self.convergence.needs_more_rounds()).size and not self._may_end(is_needed):
            sweep += 1
            queue = deque(batches(rng.permutation(which), plan.problems))
            self._sweep(queue, f"sweep {sweep}", is_needed, is_first)
            self._refuse_failures()
            if is_first:
                break
        self.is_cut = which.size > 0
        if before is not None and not samples.taken.all():
            self.convergence = before
            return False
        return True

    def _may_end(self, is_needed: bool) -> bool:
        return self._allowed.is_over and (not is_needed or bool(self.convergence.samples.taken.all()))

    def _sweep(self, queue: deque[Indices], detail: str, is_needed: bool, is_first: bool) -> None:
        if self._done_before is None and not is_first:
            self._done_before = self.convergence.done
        done, total = 0, sum(map(len, queue))
        retries = int(_RETRIES * len(queue)) + 1
        while queue and not self._may_end(is_needed):
            batch = queue.popleft()
            seconds = self.reference.time_with(self._device, *self._wanted(batch))
            if self.reference.is_disturbed and retries and not self._allowed.is_over:
                retries -= 1
                self.reference.disturbed += 1
                queue.append(batch)
                continue
            self.convergence.samples.add(batch, seconds)
            self._kept.keep("point", self._keys, self.convergence.samples, batch)
            done += len(batch)
            self._notify(Progress("profile", "point", done, total, detail))
            if self._done_before is not None:
                before = self._done_before
                self._between((self.convergence.done - before) / max(1 - before, 1e-9))
            self._kept.save_if_due()

    def _wanted(self, batch: Indices) -> tuple[list[LayerProblem], int]:
        """The problems of a batch, and the rounds that it is timed for: never more than its points may have."""
        found = self.convergence
        rounds = min(_ROUNDS, int(self._options.rounds - found.samples.taken[batch].min()))
        return [found.plan.problems[i] for i in batch], rounds

    def _refuse_failures(self) -> None:
        found = self.convergence
        failed = np.flatnonzero((found.samples.counts == 0) & (found.samples.taken > 0))
        if failed.size:
            first = found.plan.problems[failed[0]]
            raise DeviceError(
                f"device {self._device.info.name!r} could not time {describe(first)} (density {first.density:g}), "
                f"nor {failed.size - 1} other points; this network cannot be profiled on it"
            )
