"""``Evaluation``: the test error of every exported model, or its distance from the dense one, as ``evaluation.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from jcw_core.errors import FormatError
from jcw_core.files import read_json, write_json
from jcw_core.run.records.values import is_amount, is_count, row_of
from jcw_core.shown import count_of


@dataclass(frozen=True, slots=True)
class ModelScore:
    """What one model makes of the test images.

    Args:
        test_error: share of errors; None where the network has no classes of the data.
        images: how many.
        distance: squared difference from the dense network's outputs, as a share of their squares; None where there are
            classes.
    """

    test_error: float | None
    images: int
    distance: float | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the exported files make of the test images, by identifier of the model.

    Where the images have no labels, an error is another class than the baseline's: ``against`` is ``"dense"``.
    """

    FORMAT: ClassVar[str] = "jcw-evaluation/1"

    models: Mapping[str, ModelScore]
    against: Literal["labels", "dense"] = "labels"

    def __repr__(self) -> str:
        return f"<Evaluation of {count_of(len(self.models), 'model')} against {self.against}>"

    def write(self, path: Path) -> None:
        """Write ``evaluation.json``."""
        models = {
            name: {key: value for key, value in asdict(score).items() if value is not None}
            for name, score in self.models.items()
        }
        told = {} if self.against == "labels" else {"against": self.against}
        write_json(path, {"format": self.FORMAT, **told, "models": models})

    @classmethod
    def read(cls, path: Path) -> Evaluation:
        """Read ``evaluation.json``. Raises ``FormatError``, with the model, for anything else."""
        document = read_json(path, kind=cls.FORMAT, objects=("models",))
        against = document.get("against", "labels")
        if against not in ("labels", "dense"):
            raise FormatError(f"{path}: against is {against!r:.40}, expected 'labels' or 'dense'")
        rows = document["models"].items()
        return cls({name: _score(row, f"{path}: model {name!r}") for name, row in rows}, against)


def _score(row: Any, where: str) -> ModelScore:
    key = "distance" if isinstance(row, dict) and "distance" in row else "test_error"
    found = row_of(row, {key: is_amount, "images": is_count}, where)
    return ModelScore(**{"test_error": None, **found})
