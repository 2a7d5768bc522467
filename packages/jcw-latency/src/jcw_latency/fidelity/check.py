"""``check``: predictions compared with networks that really run (section 4.2 of the paper)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.shrink import kept_macs
from jcw_core.shown import count_of
from jcw_core.space.space import Population
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.profiling.networks import NetworkRuns
from jcw_latency.profiling.progress import Notify, ignore
from jcw_latency.table.predictor import LatencyPredictor


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
        slowdown: share by which the network itself, with nothing pruned, took longer than for the table;
            None where the table does not say.
    """

    points: tuple[Point, ...]
    method: str = "networks"
    slowdown: float | None = None

    def __repr__(self) -> str:
        return f"<Fidelity of {count_of(len(self.points), 'network')}, by {self.method}>"

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
        ``macs_kendall_tau`` (of MACs as the predictor), ``networks``, ``method``, ``slowdown`` and ``points``.
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
            "slowdown": self.slowdown,
            "points": [asdict(p) for p in self.points],
        }


def machine(slowdown: float) -> str:
    """What ``Fidelity.slowdown`` says, for people."""
    than = "slower" if slowdown > 0 else "faster"
    return f"Machine {abs(slowdown):.1%} {than} than for the table, by the network with nothing pruned"


def kendall_tau(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Kendall's tau-b of two samples (n,); 1 when one of them is constant, which orders nothing wrongly."""
    above = np.triu_indices(len(first), 1)
    one, other = (np.sign(x[:, None] - x[None, :])[above] for x in (first, second))
    scale = float(np.sqrt(np.count_nonzero(one) * np.count_nonzero(other)))
    return float((one * other).sum()) / scale if scale else 1.0


def check(
    predictor: LatencyPredictor,
    device: GuardedDevice,
    population: Population,
    *,
    rounds: int,
    rng: np.random.Generator,
    folder: Path,
    stage: str = "check",
    notify: Notify = ignore,
) -> Fidelity:
    """Run networks on a device and compare.

    Args:
        predictor: under test.
        device: where the networks run; the layers of one without exporter are timed one by one at their
            exact shapes and added up.
        population: values (n, dimensions) of the predictor's space.
        rounds: runs of each network, of which the median counts.
        rng: source of the weights.
        folder: for model files, which are removed again.
        stage: what progress is told of.
        notify: told timed batches of networks done and in all; each network is in several.

    Raises:
        DeviceError: a network could not be timed.
    """
    space = predictor.space
    runs = NetworkRuns(
        space.network,
        [space.architecture(row) for row in population],
        device,
        rounds=rounds,
        rng=rng,
        folder=folder,
        stage=stage,
        notify=notify,
    )
    return compare(predictor, population, runs)


def compare(predictor: LatencyPredictor, population: Population, runs: NetworkRuns) -> Fidelity:
    """Compare predictions with runs of the same networks, as :func:`check` does."""
    measured, space, fit = runs.finish(), predictor.space, predictor.end_to_end
    predicted, reference_ms = predictor.predict(population), fit.reference_ms
    if runs.method == "layers":
        predicted = fit.sums(predicted)
        reference_ms = float(fit.sums(predictor.predict(space.maximum[None]))[0])
    points = (
        Point(float(guess), float(milliseconds), kept_macs(space.network, architecture))
        for guess, milliseconds, architecture in zip(predicted, measured, runs.chosen, strict=True)
    )
    slowdown = runs.reference_ms / reference_ms - 1 if reference_ms else None
    return Fidelity(tuple(points), runs.method, slowdown)
