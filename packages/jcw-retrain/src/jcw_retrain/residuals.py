"""ADMM's residuals of a trained model: ``models/ID/admm.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from jcw_core.errors import FormatError
from jcw_core.files import read_json, write_json
from jcw_core.run.records import is_amount

Residuals = Mapping[str, Sequence[float]]
"""|W - U| / |W| of each pruned layer after each epoch of ADMM; of a dense model, no layer."""

_FORMAT = "jcw-admm/1"


def residuals_of(model: str) -> str:
    """Where the residuals of a model lie, relative to the run."""
    return f"models/{model}/admm.json"


def write_residuals(path: Path, residuals: Residuals) -> None:
    """Write ``{"format": "jcw-admm/1", "residuals": {layer: [one number per epoch]}}``."""
    write_json(path, {"format": _FORMAT, "residuals": {k: list(v) for k, v in residuals.items()}})


def read_residuals(path: Path) -> dict[str, list[float]]:
    """Read what ``write_residuals`` wrote. Raises ``FormatError``, with the layer, for anything else."""
    residuals: dict[str, list[float]] = read_json(path, kind=_FORMAT, objects=("residuals",))["residuals"]
    for layer, values in residuals.items():
        if not isinstance(values, list) or not all(v is not None and is_amount(v) for v in values):
            raise FormatError(f"{path}: residuals[{layer!r}] is {values!r:.60}, expected numbers; run again")
    return residuals
