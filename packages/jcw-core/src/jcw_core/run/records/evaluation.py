"""``Evaluation``: the test error of every exported model, as ``evaluation.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Literal

from jcw_core.errors import FormatError
from jcw_core.files import read_json, write_json
from jcw_core.run.records.values import is_amount, is_count, row_of


@dataclass(frozen=True, slots=True)
class ModelScore:
    """How one model classifies the test images: share of errors, and number of images."""

    test_error: float
    images: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the exported files make of the test images, by identifier of the model.

    Where the images have no labels, an error is another class than the baseline's: ``against`` is ``"dense"``.
    """

    FORMAT: ClassVar[str] = "jcw-evaluation/1"

    models: Mapping[str, ModelScore]
    against: Literal["labels", "dense"] = "labels"

    def write(self, path: Path) -> None:
        """Write ``evaluation.json``."""
        models = {name: asdict(score) for name, score in self.models.items()}
        told = {} if self.against == "labels" else {"against": self.against}
        write_json(path, {"format": self.FORMAT, **told, "models": models})

    @classmethod
    def read(cls, path: Path) -> Evaluation:
        """Read ``evaluation.json``. Raises ``FormatError``, with the model, for anything else."""
        keys = {"test_error": is_amount, "images": is_count}
        document = read_json(path, kind=cls.FORMAT, objects=("models",))
        against = document.get("against", "labels")
        if against not in ("labels", "dense"):
            raise FormatError(f"{path}: against is {against!r:.40}, expected 'labels' or 'dense'")
        rows = document["models"].items()
        return cls(
            {name: ModelScore(**row_of(row, keys, f"{path}: model {name!r}")) for name, row in rows}, against
        )
