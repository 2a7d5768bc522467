"""``ChosenModel``: a model that was chosen from the front and trained, a row of ``models/index.json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from jcw_core.errors import ArchitectureError, FormatError
from jcw_core.files import read_json, write_json
from jcw_core.names import is_path_inside, is_plain_name
from jcw_core.network.architecture import Architecture
from jcw_core.run.records.values import is_amount, is_count

BASELINE = "baseline"
"""Identifier of the dense, full-width network among the models."""


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

    FORMAT: ClassVar[str] = "jcw-models/1"

    id: str
    architecture: Architecture
    requested_latency_ms: float | None
    predicted_latency_ms: float | None
    search_error: float | None
    kept_weights: int
    weights: str

    def __repr__(self) -> str:
        times = {"requested": self.requested_latency_ms, "predicted": self.predicted_latency_ms}
        shown = "".join(f"{ms:.6g} ms {kind}, " for kind, ms in times.items() if ms is not None)
        return f"<ChosenModel {self.id!r}: {shown}{self.kept_weights:,} weights kept>"

    @staticmethod
    def write_all(path: Path, models: Sequence[ChosenModel]) -> None:
        """Write ``models/index.json``: the dense network first, then by rising predicted latency."""
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
            for m in sorted(models, key=lambda m: (m.id != BASELINE, m.predicted_latency_ms or 0.0))
        ]
        write_json(path, {"format": ChosenModel.FORMAT, "models": rows})

    @staticmethod
    def read_all(path: Path) -> list[ChosenModel]:
        """Read ``models/index.json``. Raises ``FormatError``, with the key, for anything else."""
        rows = read_json(path, kind=ChosenModel.FORMAT).get("models")
        if not isinstance(rows, list):
            raise FormatError(f"{path}: models is {rows!r:.60}, expected a list; run again")
        models = [_model(row, f"{path}: models[{index}]") for index, row in enumerate(rows)]
        twice = [name for name, count in Counter(m.id for m in models).items() if count > 1]
        if twice:
            raise FormatError(f"{path}: two models have the id {twice[0]!r}; run again")
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


_KEYS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "id": (is_plain_name, "a name without slashes, as it names a folder"),
    "requested_latency_ms": (is_amount, "milliseconds or null"),
    "predicted_latency_ms": (is_amount, "milliseconds or null"),
    "search_error": (is_amount, "a share or null"),
    "kept_weights": (is_count, "a whole number"),
    "weights": (is_path_inside, "a path inside the run"),
}
"""What each key of a chosen model must be, beside its architecture."""
