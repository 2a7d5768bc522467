"""``Measurements``: what the models of a run take on its device, as ``measurements.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from jcw_core.errors import DeviceError, FormatError
from jcw_core.files import read_json, write_json
from jcw_core.protocols.devices import DeviceInfo
from jcw_core.run.records.values import is_amount, is_count, row_of
from jcw_core.shown import count_of


@dataclass(frozen=True, slots=True)
class ModelTimes:
    """Times of one model over all rounds, in milliseconds."""

    median_ms: float
    min_ms: float
    max_ms: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Measurements:
    """What was measured once the models were exported.

    Args:
        device: what it was measured on.
        models: by identifier; None on a device that runs no models.
        fidelity: how far predictions are from random networks that ran whole (``mape``, ``max_error``,
            ``bias``, ``kendall_tau``, ``macs_kendall_tau``, ``networks``, ``method``, ``slowdown``, ``verdict``:
            ``level``, ``reasons``, ``remedy``; and ``points``: ``predicted_ms``, ``measured_ms``, ``macs``), or None. Whoever draws it checks it.
        layers_ms: milliseconds of each fused layer, by its name and the model's; empty on a device that does not tell.
    """

    FORMAT: ClassVar[str] = "jcw-measurements/1"

    device: DeviceInfo
    models: Mapping[str, ModelTimes | None]
    fidelity: Any = None
    layers_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Measurements of {count_of(len(self.models), 'model')} on {self.device.name!r}>"

    def write(self, path: Path) -> None:
        """Write ``measurements.json``."""
        models = {name: None if times is None else asdict(times) for name, times in self.models.items()}
        write_json(
            path,
            {
                "format": self.FORMAT,
                "device": self.device.to_dict(),
                "models": models,
                "fidelity": self.fidelity,
            }
            | ({"layers_ms": self.layers_ms} if self.layers_ms else {}),
        )

    @classmethod
    def read(cls, path: Path) -> Measurements:
        """Read ``measurements.json``. Raises ``FormatError``, with the key or model, for anything else."""
        document = read_json(path, kind=cls.FORMAT, objects=("device", "models"))
        try:
            device = DeviceInfo.from_dict(document["device"])
        except DeviceError as error:
            raise FormatError(f"{path}: its device is damaged ({error}); run again") from None
        models = {name: _times(row, f"{path}: model {name!r}") for name, row in document["models"].items()}
        return cls(device, models, document.get("fidelity"), _layers(document.get("layers_ms", {}), path))


def _times(row: Any, where: str) -> ModelTimes | None:
    """One row; ``where`` says which in errors."""
    if row is None:
        return None
    keys = {**dict.fromkeys(("median_ms", "min_ms", "max_ms"), is_amount), "rounds": is_count}
    return ModelTimes(**row_of(row, keys, where))


def _layers(found: Any, path: Path) -> Mapping[str, Mapping[str, float]]:
    """Milliseconds by model and layer; runs of older versions have none."""
    if isinstance(found, dict) and all(isinstance(layers, dict) for layers in found.values()):
        times = [ms for layers in found.values() for ms in layers.values()]
        if None not in times and all(map(is_amount, times)):
            return found
    raise FormatError(
        f"{path}: layers_ms is {found!r:.60}, expected milliseconds by model and layer; run again"
    )
