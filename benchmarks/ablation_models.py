"""The models of a row, each trained as a piece of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ablation_rows import Rows, locked
from harness import Row
from pieces import Piece

TRAINED = ("test_error", "training_seconds", "measured_ms", "dense_measured_ms")
"""What training adds to a model that is scored on the test split."""


@dataclass(frozen=True, slots=True)
class Models:
    """Training of what rows list under ``models``.

    Args:
        rows: where they stand.
        work: folder for locks.
    """

    rows: Rows
    work: Path

    def pieces(self, key: Row, train: Callable[[str, Row], Row], done: str = "test_error") -> Iterator[Piece]:
        """A piece for each model of the row with this key, as far as the row is there.

        Args:
            train: of a name for its checkpoints and a model, what is known of it then.
            done: what a trained model has.
        """
        row = self.rows.find(**key)
        for index in range(len(row["models"]) if row else 0):
            name = "-".join(map(str, (*key.values(), index)))
            yield Piece(
                name,
                partial(self._missing, key, index, done),
                partial(self._train, key, index, name, train, done),
            )

    def _missing(self, key: Row, index: int, done: str) -> bool:
        row = self.rows.find(**key)
        return row is not None and done not in row["models"][index]

    def _train(self, key: Row, index: int, name: str, train: Callable[[str, Row], Row], done: str) -> None:
        row = self.rows.find(**key)
        assert row is not None
        known = self._twin(row, row["models"][index]) if done in TRAINED else None
        model = known or train(name, row["models"][index])
        # Read again, as another process may have trained another model of the row.
        with locked(self.work, "models"):
            row = self.rows.find(**key)
            assert row is not None
            row["models"][index] = model
            row["test_error"] = {
                f"{model['requested_ms']:.4g}": model["test_error"]
                for model in row["models"]
                if model["requested_ms"] is not None and "test_error" in model
            }
            self.rows.put(row)

    def _twin(self, row: Row, model: Row) -> Row | None:
        """The model as it was trained for another row or budget: it would come out the same again."""
        same = ("network", "seed", "training")
        others = [r for r in self.rows.read() if all(r.get(name) == row.get(name) for name in same)]
        for other in (one for found in others for one in found.get("models", ())):
            if other["architecture"] == model["architecture"] and "test_error" in other:
                return model | {name: other[name] for name in TRAINED}
        return None
