"""What finished stages have found, as far as a report would show it: the front and the models."""

from __future__ import annotations

from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from jcw_core.errors import JcwError
from jcw_core.report.axes import axis
from jcw_core.report.charts import Series, plot
from jcw_core.run import records

_LATENCY = "latency"


@dataclass(slots=True)
class Found:
    """Records of a run, as many as there are.

    Args:
        front: of the search.
        models: that were trained, the dense network first.
        times: milliseconds, by model.
        scores: on test images, by model.
    """

    front: records.Front | None = None
    models: list[records.ChosenModel] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)
    scores: dict[str, records.ModelScore] = field(default_factory=dict)

    @classmethod
    def read(cls, root: Path, made: Container[str]) -> Found:
        """Read those of the run in ``root`` that finished stages have ``made``; damaged ones are left out."""
        found = cls()
        if records.FRONT in made:
            with suppress(JcwError):
                found.front = records.Front.read(root / records.FRONT)
        if records.MODELS in made:
            with suppress(JcwError):
                found.models = records.ChosenModel.read_all(root / records.MODELS)
        if records.MEASUREMENTS in made:
            with suppress(JcwError):
                measured = records.Measurements.read(root / records.MEASUREMENTS).models
                found.times = {name: times.median_ms for name, times in measured.items() if times}
        if records.EVALUATION in made:
            with suppress(JcwError):
                found.scores = dict(records.Evaluation.read(root / records.EVALUATION).models)
        return found

    def html(self) -> str:
        """The plot of the front with models on it, and the table of models; ``""`` where there is neither."""
        return self._plot() + self._table()

    def _plot(self) -> str:
        if self.front is None or _LATENCY not in self.front.units or len(self.front.units) < 2:
            return ""
        kind = next(name for name in self.front.units if name != _LATENCY)
        label, scale = axis(kind)
        found = [
            (c.objectives[_LATENCY], scale * c.objectives[kind])
            for c in self.front.candidates
            if {_LATENCY, kind} <= c.objectives.keys()
        ]
        drawn = [Series("search front (predicted)", found, "both", colour=5)]
        points = {m.id: (self.times[m.id], scale * score) for m, score in self._scored(kind)}
        if points:
            drawn.append(Series("models (measured)", list(points.values()), "points", (), 0, list(points)))
        return "<h2>The front</h2>" + plot(
            drawn, x_label="latency, ms", y_label=label, width=760, height=420, from_zero=True
        )

    def _scored(self, kind: str) -> list[tuple[records.ChosenModel, float]]:
        """Models whose latency is measured, with their score where it is of the ``kind`` that the search minimised."""
        known = [(m, self.scores[m.id]) for m in self.models if m.id in self.times and m.id in self.scores]
        values = [
            (m, {"error": score.test_error, "distance": score.distance}.get(kind)) for m, score in known
        ]
        return [(model, value) for model, value in values if value is not None]

    def _table(self) -> str:
        if not self.models:
            return ""
        heads = ("model", "requested ms", "predicted ms", "measured ms", "search error", "test error")
        rows = "".join(f"<tr>{self._cells(model)}</tr>" for model in self.models)
        return (
            '<h2>Models</h2><div class="scroll"><table><thead><tr>'
            + "".join(f'<th scope="col">{head}</th>' for head in heads)
            + f"</tr></thead><tbody>{rows}</tbody></table></div>"
        )

    def _cells(self, model: records.ChosenModel) -> str:
        score = self.scores.get(model.id)
        times = (model.requested_latency_ms, model.predicted_latency_ms, self.times.get(model.id))
        shares = (model.search_error, score.test_error if score else None)
        cells = ["-" if ms is None else f"{ms:.3f}" for ms in times]
        cells += ["-" if share is None else f"{share:.2%}" for share in shares]
        return f'<th scope="row">{escape(model.id)}</th>' + "".join(f"<td>{cell}</td>" for cell in cells)
