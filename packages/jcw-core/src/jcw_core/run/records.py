"""The files that stages hand to each other: the front, the chosen models, what was measured."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jcw_core.errors import ArchitectureError, FormatError, JcwError
from jcw_core.files import read_json, write_json
from jcw_core.network.architecture import Architecture

TABLE = "table.npz"
SUPERNET = "supernet.safetensors"
FRONT = "front.json"
MODELS = "models/index.json"
EXPORTS = "models/exports.json"
"""``{"format": "jcw-exports/1", "models": {id: {exporter name: file relative to the run}}}``."""
MEASUREMENTS = "measurements.json"
"""``{"format": "jcw-measurements/1", "device": {name, cpu, isa, threads, versions}, "models": {id:
{"median_ms", "min_ms", "max_ms", "rounds"}}, "fidelity": {"mape", "max_error", "bias",
"kendall_tau", "macs_kendall_tau", "networks", "slowdown", "points": [{"predicted_ms", "measured_ms", "macs"}]} or null}``."""
EVALUATION = "evaluation.json"
"""``{"format": "jcw-evaluation/1", "models": {id: {"test_error", "images"}}}``."""
BASELINE = "baseline"
"""Identifier of the dense, full-width network among the models."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An architecture with its predicted objectives, by objective name (``latency`` in ms).

    Args:
        architecture: what it keeps.
        objectives: what is reported of it.
        estimates: by which it was chosen, where they are not what is reported: a value that chose it
            flatters it.
    """

    architecture: Architecture
    objectives: Mapping[str, float]
    estimates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Front:
    """What a search found.

    Args:
        network: name of the network.
        units: unit of each objective, in the order of the search.
        candidates: mutually non-dominated by what they were chosen by, by rising latency.
        search: how it was found: ``strategy``, ``variant``, ``generations``, ``population``,
            ``evaluated``, ``hypervolume`` (of the first population and of each generation, normalised by the space's
            bounds), ``population_latency_ms`` (of the last generation), ``again`` (objectives that were
            evaluated again for the front), ``failed`` (architectures that had no finite value).
    """

    network: str
    units: Mapping[str, str]
    candidates: Sequence[Candidate]
    search: Mapping[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write ``front.json``."""
        models = [
            {"architecture": c.architecture.to_dict(), "objectives": dict(c.objectives)}
            | ({"estimates": dict(c.estimates)} if c.estimates else {})
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
                    {str(name): _finite(value) for name, value in m["objectives"].items()},
                    {str(name): _finite(value) for name, value in m.get("estimates", {}).items()},
                )
                for m in document["models"]
            ]
            if not _is_text(document["network"]):
                raise FormatError(f"network is {document['network']!r:.60}, expected a name")
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
        """Read ``models/index.json``. Raises ``FormatError``, with the key, for anything else."""
        rows = read_json(path, kind="jcw-models/1").get("models")
        if not isinstance(rows, list):
            raise FormatError(f"{path}: models is {rows!r:.60}, expected a list; run again")
        models = [_model(row, f"{path}: models[{index}]") for index, row in enumerate(rows)]
        twice = [name for name, count in Counter(m.id for m in models).items() if count > 1]
        if twice:
            raise FormatError(f"{path}: two models have the id {twice[0]!r}; run again")
        return models


def write_exports(path: Path, files: Mapping[str, Mapping[str, str]]) -> None:
    """Write ``models/exports.json``.

    Args:
        files: by identifier of a model and name of an exporter, relative to the run.
    """
    write_json(path, {"format": "jcw-exports/1", "models": files})


def read_exports(path: Path) -> dict[str, dict[str, str]]:
    """Read ``models/exports.json``. Raises ``FormatError``, with the model, for anything else."""
    models: dict[str, dict[str, str]] = read_json(path, kind="jcw-exports/1", objects=("models",))["models"]
    for name, files in models.items():
        if not isinstance(files, dict) or not all(map(_is_text, files.values())):
            raise FormatError(
                f"{path}: models[{name!r}] is {files!r:.60}, expected a file for each exporter; run again"
            )
    return models


def _model(row: Any, where: str) -> ChosenModel:
    """One row of ``models/index.json``; ``where`` says which in errors."""
    if not isinstance(row, dict) or row.keys() != {"architecture", *_KEYS}:
        found = sorted(row) if isinstance(row, dict) else row
        expected = ["architecture", *_KEYS]
        raise FormatError(
            f"{where}: found {found!r:.120}, expected the keys {', '.join(expected)}; run again"
        )
    for key, (fits, expected_kind) in _KEYS.items():
        if not fits(row[key]):
            raise FormatError(f"{where}.{key} is {row[key]!r:.60}, expected {expected_kind}; run again")
    try:
        return ChosenModel(**{**row, "architecture": Architecture.from_dict(row["architecture"])})
    except ArchitectureError as error:
        raise FormatError(f"{where}.architecture: {error}; run again") from None


def is_finite(value: Any) -> bool:
    """True for a number that a float holds; files may hold NaN, infinity and integers of any length."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max


def is_amount(value: Any) -> bool:
    """True for a finite number that is not negative, and for None."""
    return value is None or (is_finite(value) and value >= 0)


def _finite(value: Any) -> float:
    if not is_finite(value):
        raise FormatError(f"{value!r:.60} is no finite number")
    return float(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and is_amount(value)


_KEYS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "id": (_is_text, "a name"),
    "requested_latency_ms": (is_amount, "milliseconds or null"),
    "predicted_latency_ms": (is_amount, "milliseconds or null"),
    "search_error": (is_amount, "a share or null"),
    "kept_weights": (_is_count, "a whole number"),
    "weights": (_is_text, "the name of a file"),
}
"""What each key of a chosen model must be, beside its architecture."""
