"""The files that stages hand to each other: the front, the chosen models, what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jcw_core.architecture import Architecture
from jcw_core.errors import FormatError, JcwError
from jcw_core.files import read_json, write_json

TABLE = "table.npz"
SUPERNET = "supernet.safetensors"
FRONT = "front.json"
MODELS = "models/index.json"
EXPORTS = "models/exports.json"
"""``{"format": "jcw-exports/1", "models": {id: {exporter name: file relative to the run}}}``."""
MEASUREMENTS = "measurements.json"
"""``{"format": "jcw-measurements/1", "device": {name, cpu, isa, threads, versions}, "models": {id:
{"median_ms", "min_ms", "max_ms", "rounds"}}, "fidelity": {"mape", "max_error", "bias",
"kendall_tau", "networks", "points": [{"predicted_ms", "measured_ms", "macs"}]} or null}``."""
EVALUATION = "evaluation.json"
"""``{"format": "jcw-evaluation/1", "models": {id: {"test_error", "images"}}}``."""
BASELINE = "baseline"
"""Identifier of the dense, full-width network among the models."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An architecture with its predicted objectives, by objective name (``latency`` in ms)."""

    architecture: Architecture
    objectives: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Front:
    """What a search found.

    Args:
        network: name of the network.
        units: unit of each objective, in the order of the search.
        candidates: mutually non-dominated, by rising latency.
        search: how it was found: ``strategy``, ``variant``, ``generations``, ``population``,
            ``evaluated``, ``hypervolume`` (of the first population and of each generation, normalised by the space's
            bounds), ``population_latency_ms`` (of the last generation).
    """

    network: str
    units: Mapping[str, str]
    candidates: Sequence[Candidate]
    search: Mapping[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write ``front.json``."""
        models = [
            {"architecture": c.architecture.to_dict(), "objectives": dict(c.objectives)}
            for c in self.candidates
        ]
        write_json(
            path,
            {
                "format": "jcw-front/1",
                "network": self.network,
                "units": dict(self.units),
                "search": dict(self.search),
                "models": models,
            },
        )

    @classmethod
    def read(cls, path: Path) -> Front:
        """Read ``front.json``. Raises ``FormatError`` for anything else."""
        document = read_json(path, kind="jcw-front/1")
        try:
            candidates = [
                Candidate(
                    Architecture.from_dict(m["architecture"]),
                    {str(k): float(v) for k, v in m["objectives"].items()},
                )
                for m in document["models"]
            ]
            return cls(document["network"], dict(document["units"]), candidates, dict(document["search"]))
        except (KeyError, TypeError, ValueError, AttributeError, JcwError) as error:
            raise FormatError(f"{path}: not a front ({error}); run the search again") from None


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """A model that was chosen from the front and trained.

    Args:
        id: short and unique in its run; ``"baseline"`` for the dense network.
        architecture: what it keeps.
        requested_latency_ms: the budget it was chosen for; None for the baseline.
        predicted_latency_ms: by the latency table; None without one.
        search_error: error rate that the supernet estimated; None for the baseline.
        kept_weights: weights of convolutions and linear layers that are not zero.
        weights: safetensors file of the shrunk network, pruned weights zero, relative to the run.
    """

    id: str
    architecture: Architecture
    requested_latency_ms: float | None
    predicted_latency_ms: float | None
    search_error: float | None
    kept_weights: int
    weights: str

    @staticmethod
    def write_all(path: Path, models: Sequence[ChosenModel]) -> None:
        """Write ``models/index.json``."""
        rows = [
            {
                "id": m.id,
                "architecture": m.architecture.to_dict(),
                "requested_latency_ms": m.requested_latency_ms,
                "predicted_latency_ms": m.predicted_latency_ms,
                "search_error": m.search_error,
                "kept_weights": m.kept_weights,
                "weights": m.weights,
            }
            for m in models
        ]
        write_json(path, {"format": "jcw-models/1", "models": rows})

    @staticmethod
    def read_all(path: Path) -> list[ChosenModel]:
        """Read ``models/index.json``. Raises ``FormatError`` for anything else."""
        document = read_json(path, kind="jcw-models/1")
        try:
            return [
                ChosenModel(**{**row, "architecture": Architecture.from_dict(row["architecture"])})
                for row in document["models"]
            ]
        except (KeyError, TypeError, JcwError) as error:
            raise FormatError(f"{path}: not a list of models ({error}); run again") from None
