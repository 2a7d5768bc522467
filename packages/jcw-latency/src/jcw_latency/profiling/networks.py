"""Networks that run end to end on a device, a few rounds at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DeviceError
from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.protocols import Progress
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.profiling.checkpoint import ProfileCheckpoint
from jcw_latency.profiling.network_timing import medians_ms, network_seconds
from jcw_latency.profiling.progress import Notify, ignore
from jcw_latency.profiling.time_allowed import TimeAllowed

_BUSY = 0.2
"""Share by which the network itself is slower than usual in a timed batch that is repeated."""
_RETRIES = 0.25
"""Share of the timed batches that are repeated at most."""
_BATCH = 10
"""Networks that are on disk and on the device at one time."""
_LEAST = 10
"""Networks that run however little time there is: what a run costs beyond its layers has three unknowns."""
PASSES = 4
"""Timed batches among which the rounds of a network are spread that has to be timed well by itself."""
_REFERENCE = Architecture({}, {})
"""The network itself, of which nothing is pruned: it runs with every batch and tells how fast the machine is."""

TimedBatch = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rounds, and the networks that are run for them."""


class NetworkRuns:
    """Runs of some members of a network's space, spread over as much time as the caller wants.

    Each pass is a few rounds of every network, in a new order and company. A device that has no exporter
    runs no models: the layers are then timed one by one at their exact shapes and added up.

    Args:
        network: at full width.
        chosen: the members.
        device: where they run.
        rounds: runs of each network, of which the median counts.
        passes: timed batches among which the rounds of each network are spread.
        rng: source of weights and orders.
        folder: for model files, which are removed again.
        stage: what progress is told of.
        notify: told runs of networks done and in all, in units of one timed batch each.
        kept: runs of an earlier profile, which are not repeated; takes in the new ones.
        allowed: the time after which no more networks run than are needed.
    """

    def __init__(
        self,
        network: Network,
        chosen: Sequence[Architecture],
        device: GuardedDevice,
        *,
        rounds: int,
        passes: int = PASSES,
        rng: np.random.Generator,
        folder: Path,
        stage: str = "profile",
        notify: Notify = ignore,
        kept: ProfileCheckpoint | None = None,
        allowed: TimeAllowed | None = None,
    ) -> None:
        self.chosen = tuple(chosen)
        self._network, self._device = network, device
        self._rng, self._folder, self._stage, self._notify = rng, folder, stage, notify
        self._allowed = allowed or TimeAllowed()
        self._kept = kept or ProfileCheckpoint(None, device.info, network)
        self._keys = self._kept.network_keys(self.chosen)
        # Of each network and, in the same rounds, of the reference that ran with it.
        self._runs, self._references = (
            self._kept.samples(kind, self._keys, rounds) for kind in ("network", "reference")
        )
        earlier, left = self._plan(np.array_split(np.arange(rounds), min(passes, rounds)))
        self._batches = [*earlier, *left]
        self._earlier = self._done = len(earlier)
        self._retries = int(_RETRIES * len(self._batches)) + 1

    def advance(self, share: float) -> None:
        """Run networks until a share of the timed batches is done that were left at the beginning, or time is over.

        Raises:
            DeviceError: the device died or hung.
        """
        wanted = self._earlier + share * (len(self._batches) - self._earlier)
        while self._done < wanted and not self._may_end:
            self._run(self._done)
            self._done += 1
            done, total = (
                sum(len(which) for _, which in b) for b in (self._batches[: self._done], self._batches)
            )
            self._notify(Progress(self._stage, "network", done, total))

    def finish(self) -> NDArray[np.float64]:
        """Run what has not run yet, and again what a busy machine disturbed.

        Returns:
            median milliseconds of each network, (n,); NaN of those that had no time to run.

        Raises:
            DeviceError: a network could not be timed.
        """
        self.advance(1.0)
        while self._disturbed and self._retries and not self._allowed.is_over:
            self._retries -= 1
            self._run(self._disturbed[0])
        found = medians_ms(self._runs.seconds)
        if not np.isfinite([*found[self._has_run], self.reference_ms]).all():
            raise DeviceError(
                f"device {self._device.info.name!r} could not time a random {self._network.name}"
            )
        return found

    @property
    def reached(self) -> tuple[str, ...]:
        """How many networks ran, in words, if some had no time to; nothing if all did."""
        ran = int(self._has_run.sum())
        return () if ran == len(self.chosen) else (f"{ran} of {len(self.chosen)} networks run whole",)

    @property
    def _has_run(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self._runs.taken > 0
        return found

    @property
    def _may_end(self) -> bool:
        return self._allowed.is_over and self._has_run.sum() >= min(_LEAST, len(self.chosen))

    @property
    def method(self) -> str:
        """``"networks"`` if they run end to end, ``"layers"`` if their layers are timed one by one."""
        return "layers" if self._device.exporter is None else "networks"

    @property
    def reference_ms(self) -> float:
        """Median milliseconds of the network itself over all timed batches so far."""
        return float(medians_ms(np.vstack([self._reference(batch) for batch in self._batches]))[0])

    def _plan(self, parts: Sequence[NDArray[np.intp]]) -> tuple[list[TimedBatch], list[TimedBatch]]:
        """The timed batches of an earlier profile, and those that are left."""
        earlier, left = [], []
        known = np.minimum(self._runs.taken, self._references.taken)
        for part in parts:
            for which in self._shuffled():
                for taken in np.unique(known[which]):
                    group = which[known[which] == taken]
                    earlier.append((part[part < taken], group))
                    left.append((part[part >= taken], group))
        return [b for b in earlier if b[0].size], [b for b in left if b[0].size]

    def _run(self, number: int) -> None:
        rounds, which = self._batches[number]
        chosen = [*(self.chosen[i] for i in which), _REFERENCE]
        seconds = network_seconds(self._network, chosen, self._device, len(rounds), self._rng, self._folder)
        self._runs.put(rounds, which, seconds[:, :-1])
        self._references.put(rounds, which, seconds[:, -1:])
        self._kept.keep("network", self._keys, self._runs, which)
        self._kept.keep("reference", self._keys, self._references, which)
        self._kept.save_if_due()

    def _reference(self, batch: TimedBatch) -> NDArray[np.float64]:
        """Seconds of the network itself in a timed batch, (rounds, 1)."""
        rounds, which = batch
        return self._references.seconds[np.ix_(rounds, which[:1])]

    @property
    def _disturbed(self) -> list[int]:
        """Timed batches in which the network itself was slower than usual, the worst first."""
        times = np.concatenate([medians_ms(self._reference(batch)) for batch in self._batches])
        usual = np.quantile(times[np.isfinite(times)], 0.25) if np.isfinite(times).any() else np.inf
        return [int(i) for i in np.argsort(-times) if times[i] > (1 + _BUSY) * usual]

    def _shuffled(self) -> list[NDArray[np.intp]]:
        """All networks in a random order, as many together as fit on the device."""
        order = self._rng.permutation(len(self.chosen))
        return np.array_split(order, range(_BATCH, len(order), _BATCH))
