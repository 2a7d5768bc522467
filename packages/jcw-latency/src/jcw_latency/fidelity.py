"""How far predictions are from whole networks that really run (section 4.2 of the paper)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.architecture import Architecture
from jcw_core.errors import DeviceError
from jcw_core.fusion import fuse, problem_of
from jcw_core.model import Model
from jcw_core.network import Network
from jcw_core.protocols import Exporter
from jcw_core.pruning import density_mask
from jcw_core.shrink import kept_macs, shrink
from jcw_core.space import Population
from jcw_latency.guard import GuardedDevice
from jcw_latency.predictor import LatencyPredictor

_BATCH = 10
"""Networks that are on disk and on the device at one time."""
_PASSES = 4
"""Visits among which the rounds of each network are spread."""

Notify = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Point:
    """One network: predicted and measured latency, and the multiply-accumulates it keeps."""

    predicted_ms: float
    measured_ms: float
    macs: int


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Agreement of prediction and measurement over some networks.

    Args:
        points: one per network.
        method: ``"networks"`` when they ran whole, ``"layers"`` when their layers were timed one by one.
    """

    points: tuple[Point, ...]
    method: str = "networks"

    @property
    def errors(self) -> NDArray[np.float64]:
        """(predicted - measured) / measured, (n,)."""
        predicted, measured, _ = self._arrays
        return (predicted - measured) / measured

    @property
    def _arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        rows = np.array([(p.predicted_ms, p.measured_ms, p.macs) for p in self.points], dtype=np.float64)
        return rows[:, 0], rows[:, 1], rows[:, 2]

    def to_dict(self) -> dict[str, Any]:
        """``mape``, ``max_error``, ``bias`` (shares of the measured time), ``kendall_tau``,
        ``macs_kendall_tau`` (of MACs as the predictor), ``networks``, ``method`` and ``points``.
        """  # fmt: skip
        errors, (predicted, measured, macs) = self.errors, self._arrays
        return {
            "mape": float(np.abs(errors).mean()),
            "max_error": float(np.abs(errors).max()),
            "bias": float(errors.mean()),
            "kendall_tau": kendall_tau(predicted, measured),
            "macs_kendall_tau": kendall_tau(macs, measured),
            "networks": len(self.points),
            "method": self.method,
            "points": [asdict(p) for p in self.points],
        }


def kendall_tau(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Kendall's tau-b of two samples (n,); 1 when one of them is constant, which orders nothing wrongly."""
    above = np.triu_indices(len(first), 1)
    one, other = (np.sign(x[:, None] - x[None, :])[above] for x in (first, second))
    scale = float(np.sqrt(np.count_nonzero(one) * np.count_nonzero(other)))
    return float((one * other).sum()) / scale if scale else 1.0


def check(
    predictor: LatencyPredictor,
    device: GuardedDevice,
    exporter: Exporter | None,
    population: Population,
    *,
    rounds: int,
    rng: np.random.Generator,
    folder: Path,
    notify: Notify = lambda done, total, detail: None,
) -> Fidelity:
    """Run networks on a device and compare.

    Args:
        predictor: under test.
        device: where the networks run.
        exporter: of the device's ``model_format``; None for a device that runs no models, whose
            layers are then timed one by one at their exact shapes and added up.
        population: values (n, dimensions) of the predictor's space.
        rounds: runs of each network, of which the median counts.
        rng: source of the weights.
        folder: for model files, which are removed again.
        notify: told visits of networks done and in all; each network is visited several times.

    Raises:
        DeviceError: a network could not be timed.
    """
    space = predictor.space
    predicted = predictor.predict(population)
    if exporter is None:
        predicted = predictor.sum_of_layers(predicted)
    chosen = [space.architecture(row) for row in population]

    def time(batch: Sequence[Architecture], count: int) -> NDArray[np.float64]:
        if exporter is None:
            return _time_layers(space.network, batch, device, count)
        return _time_models(space.network, batch, device, exporter, count, rng, folder)

    measured = medians_ms(_in_passes(chosen, time, rounds, rng, notify))
    if not np.isfinite(measured).all():
        raise DeviceError(f"device {device.info.name!r} could not time a random {space.network.name}")
    points = (
        Point(float(guess), float(milliseconds), kept_macs(space.network, architecture))
        for guess, milliseconds, architecture in zip(predicted, measured, chosen, strict=True)
    )
    return Fidelity(tuple(points), "layers" if exporter is None else "networks")


def _in_passes(
    chosen: Sequence[Architecture],
    time: Callable[[Sequence[Architecture], int], NDArray[np.float64]],
    rounds: int,
    rng: np.random.Generator,
    notify: Notify,
) -> NDArray[np.float64]:
    """Seconds (rounds, n). Few rounds at a time, in ever new company: else drift would tell batches apart."""
    seconds = np.full((rounds, len(chosen)), np.nan)
    passes = np.array_split(np.arange(rounds), min(_PASSES, rounds))
    done, total = 0, len(passes) * len(chosen)
    for part in passes:
        order = rng.permutation(len(chosen))
        for batch in np.array_split(order, range(_BATCH, len(order), _BATCH)):
            seconds[np.ix_(part, batch)] = time([chosen[i] for i in batch], len(part))
            done += len(batch)
            notify(done, total, "")
    return seconds


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
        units.append([problem_of(small, u, architecture.densities.get(u.name, 1.0)) for u in fuse(small)])
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
