"""Networks that run whole on a device, a few rounds at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DeviceError
from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.model import Model
from jcw_core.network.shrink import shrink
from jcw_core.network.weight_groups import density_mask
from jcw_core.protocols import Exporter
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.profiling.checkpoint import Partial

_BUSY = 0.2
"""Share by which the network itself is slower than usual at a visit that is repeated."""
_RETRIES = 0.25
"""Share of the visits that are repeated at most."""
_BATCH = 10
"""Networks that are on disk and on the device at one time."""
PASSES = 4
"""Visits among which the rounds of a network are spread that has to be timed well by itself."""
_REFERENCE = Architecture({}, {})
"""The network itself, of which nothing is pruned: it runs with every batch and tells how fast the machine is."""

Notify = Callable[[int, int, str], None]
Visit = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rounds, and the networks that are run for them."""


class NetworkRuns:
    """Runs of some members of a network's space, spread over as much time as the caller wants.

    Each pass is a few rounds of every network, in a new order and company.

    Args:
        network: at full width.
        chosen: the members.
        device: where they run.
        exporter: of the device's ``model_format``; None for a device that runs no models, whose layers are
            then timed one by one at their exact shapes and added up.
        rounds: runs of each network, of which the median counts.
        passes: visits among which the rounds of each network are spread.
        rng: source of weights and orders.
        folder: for model files, which are removed again.
        notify: told visits of networks done and in all.
        kept: runs of an earlier profile, which are not repeated; takes in the new ones.
    """

    def __init__(
        self,
        network: Network,
        chosen: Sequence[Architecture],
        device: GuardedDevice,
        exporter: Exporter | None,
        *,
        rounds: int,
        passes: int = PASSES,
        rng: np.random.Generator,
        folder: Path,
        notify: Notify = lambda done, total, detail: None,
        kept: Partial | None = None,
    ) -> None:
        self.chosen = tuple(chosen)
        self._network, self._device, self._exporter = network, device, exporter
        self._rng, self._folder, self._notify = rng, folder, notify
        self._kept = kept or Partial(None, device.info, network)
        self._keys = self._kept.network_keys(self.chosen)
        # Of each network and, in the same rounds, of the reference that ran with it.
        self._runs, self._references = (
            self._kept.samples(kind, self._keys, rounds) for kind in ("network", "reference")
        )
        earlier, left = self._plan(np.array_split(np.arange(rounds), min(passes, rounds)))
        self._visits = [*earlier, *left]
        self._earlier = self._done = len(earlier)
        self._retries = int(_RETRIES * len(self._visits)) + 1

    def advance(self, share: float) -> None:
        """Run networks until a share of the visits is done that were left at the beginning.

        Raises:
            DeviceError: the device died or hung.
        """
        while self._done < self._earlier + share * (len(self._visits) - self._earlier):
            self._visit(self._done)
            self._done += 1
            done, total = (
                sum(len(batch) for _, batch in v) for v in (self._visits[: self._done], self._visits)
            )
            self._notify(done, total, "")

    def finish(self) -> NDArray[np.float64]:
        """Run what has not run yet, and again what a busy machine disturbed; median milliseconds of each network, (n,).

        Raises:
            DeviceError: a network could not be timed.
        """
        self.advance(1.0)
        while self._disturbed and self._retries:
            self._retries -= 1
            self._visit(self._disturbed[0])
        found = medians_ms(self._runs.seconds)
        if not np.isfinite([*found, self.reference_ms]).all():
            raise DeviceError(
                f"device {self._device.info.name!r} could not time a random {self._network.name}"
            )
        return found

    @property
    def method(self) -> str:
        """``"networks"`` if they run whole, ``"layers"`` if their layers are timed one by one."""
        return "layers" if self._exporter is None else "networks"

    @property
    def reference_ms(self) -> float:
        """Median milliseconds of the network itself over all visits so far."""
        return float(medians_ms(np.vstack([self._reference(visit) for visit in self._visits]))[0])

    def _plan(self, parts: Sequence[NDArray[np.intp]]) -> tuple[list[Visit], list[Visit]]:
        """The visits that an earlier profile has done, and those that are left."""
        earlier, left = [], []
        known = np.minimum(self._runs.taken, self._references.taken)
        for part in parts:
            for batch in self._batches():
                for taken in np.unique(known[batch]):
                    group = batch[known[batch] == taken]
                    earlier.append((part[part < taken], group))
                    left.append((part[part >= taken], group))
        return [v for v in earlier if v[0].size], [v for v in left if v[0].size]

    def _visit(self, number: int) -> None:
        rounds, batch = self._visits[number]
        seconds = self._time([*(self.chosen[i] for i in batch), _REFERENCE], len(rounds))
        self._runs.put(rounds, batch, seconds[:, :-1])
        self._references.put(rounds, batch, seconds[:, -1:])
        self._kept.keep("network", self._keys, self._runs, batch)
        self._kept.keep("reference", self._keys, self._references, batch)
        self._kept.save_now_and_then()

    def _reference(self, visit: Visit) -> NDArray[np.float64]:
        """Seconds of the network itself at a visit, (rounds, 1)."""
        rounds, batch = visit
        return self._references.seconds[np.ix_(rounds, batch[:1])]

    @property
    def _disturbed(self) -> list[int]:
        """Visits at which the network itself was slower than usual, the worst first."""
        times = np.concatenate([medians_ms(self._reference(visit)) for visit in self._visits])
        usual = np.quantile(times[np.isfinite(times)], 0.25) if np.isfinite(times).any() else np.inf
        return [int(i) for i in np.argsort(-times) if times[i] > (1 + _BUSY) * usual]

    def _batches(self) -> list[NDArray[np.intp]]:
        order = self._rng.permutation(len(self.chosen))
        return np.array_split(order, range(_BATCH, len(order), _BATCH))

    def _time(self, batch: Sequence[Architecture], rounds: int) -> NDArray[np.float64]:
        if self._exporter is None:
            return _time_layers(self._network, batch, self._device, rounds)
        return _time_models(
            self._network, batch, self._device, self._exporter, rounds, self._rng, self._folder
        )


def _time_models(
    network: Network,
    chosen: Sequence[Architecture],
    device: GuardedDevice,
    exporter: Exporter,
    rounds: int,
    rng: np.random.Generator,
    folder: Path,
) -> NDArray[np.float64]:
    paths = [folder / f"check-{index}{exporter.suffix}" for index in range(len(chosen))]
    try:
        for path, architecture in zip(paths, chosen, strict=True):
            exporter.export(random_model(network, architecture, rng), path)
        return device.measure_models(paths, rounds)
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def _time_layers(
    network: Network, chosen: Sequence[Architecture], device: GuardedDevice, rounds: int
) -> NDArray[np.float64]:
    units = []
    for architecture in chosen:
        small = shrink(network, architecture)
        units.append([problem_of(small, u, architecture.densities.get(u.name, 1.0)) for u in fuse(network)])
    seconds = device.measure(list(itertools.chain.from_iterable(units)), rounds)
    stops = np.cumsum([len(problems) for problems in units])
    return np.stack([part.sum(axis=1) for part in np.split(seconds, stops[:-1], axis=1)], axis=1)


def medians_ms(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Median over rounds (rounds, n) of the timings that did not fail, milliseconds; NaN without any."""
    found = np.full(seconds.shape[1], np.nan)
    timed = np.isfinite(seconds).any(axis=0)
    found[timed] = np.nanmedian(seconds[:, timed], axis=0) * 1e3
    return found


def random_model(network: Network, architecture: Architecture, rng: np.random.Generator) -> Model:
    """An architecture with random weights: what it computes is nonsense, what it costs is not."""
    small = shrink(network, architecture)
    return Model(small, dict(_weights(small, architecture, rng)), architecture)


def _weights(
    network: Network, architecture: Architecture, rng: np.random.Generator
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for name, shape in {**network.parameter_shapes, **network.buffer_shapes}.items():
        layer, _, key = name.rpartition(".")
        if network[layer].op == "batch_norm" or key == "bias":
            yield name, np.full(shape, key in ("weight", "running_var"), dtype=np.float32)
            continue
        # He et al. 2015, so that activations stay in a normal range on the way through.
        values = rng.standard_normal(shape, dtype=np.float32) * np.float32(np.sqrt(2 / np.prod(shape[1:])))
        if layer in architecture.densities:
            values *= density_mask(values, architecture.densities[layer])
        yield name, values
