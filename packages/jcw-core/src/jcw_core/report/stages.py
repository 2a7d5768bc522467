"""The last stage: ``report.json`` and ``report.html``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jcw_core.errors import FormatError
from jcw_core.files import atomic, write_json
from jcw_core.network.shrink import kept_macs
from jcw_core.protocols import Run
from jcw_core.run import records
from jcw_core.space.space import prunable_layers

FORMAT = "jcw-report/1"
REPORT = "report.json"
PAGE = "report.html"


class ReportStage:
    """Puts requested, predicted and measured side by side."""

    name = "report"
    section = ""
    options = None
    reads = ("network", "data", "space")
    makes = (REPORT, PAGE)

    def needs(self, run: Run) -> tuple[str, ...]:
        """All that was found, trained and measured."""
        return (records.FRONT, records.MODELS, records.EXPORTS, records.MEASUREMENTS, records.EVALUATION)

    def run(self, run: Run) -> Sequence[str]:
        """Write the JSON, then the page made from it."""
        from jcw_core.report.page import render

        report = assemble(run)
        write_json(run.path(REPORT), report)
        sections = sorted(run.registry.report_sections.values(), key=lambda s: (s.order, s.name))
        with atomic(run.path(PAGE)) as temporary:
            temporary.write_text(render(report, sections), encoding="utf-8")
        return ()


def assemble(run: Run) -> dict[str, Any]:
    """The content of ``report.json``.

    Raises:
        FormatError: a file that an earlier stage wrote lacks a model.
    """
    measurements = records.Measurements.read(run.path(records.MEASUREMENTS))
    evaluation = records.Evaluation.read(run.path(records.EVALUATION))
    exports = records.read_exports(run.path(records.EXPORTS))
    rows = {
        model.id: _row(run, model, exports, measurements.models, evaluation.models)
        for model in records.ChosenModel.read_all(run.path(records.MODELS))
    }
    if records.BASELINE not in rows:
        raise FormatError(
            f"{run.path(records.MODELS)}: no model {records.BASELINE!r}; run the retrain stage again"
        )
    report: dict[str, Any] = {
        "format": FORMAT,
        "device": measurements.device.to_dict(),
        "network": run.network.name,
        "dataset": run.recipe.data.name,
        "layers": _layers(run),
        "front": _front(run),
        "baseline": rows.pop(records.BASELINE),
        "models": sorted(rows.values(), key=lambda row: row["predicted_latency_ms"] or 0.0),
    }
    for section in run.registry.report_sections.values():
        data = section.data(run)
        if data is not None:
            report[section.name] = dict(data)
    return report


def _row(
    run: Run,
    model: records.ChosenModel,
    exports: Mapping[str, Mapping[str, str]],
    measurements: Mapping[str, records.ModelTimes | None],
    evaluation: Mapping[str, records.ModelScore],
) -> dict[str, Any]:
    """What is known of a model; the mappings are by identifier."""
    try:
        files = exports[model.id]
        file = files.get("jcw") or next(iter(files.values()))
        measured, score = measurements[model.id], evaluation[model.id]
    except (KeyError, StopIteration):
        raise FormatError(f"model {model.id!r} was not exported, measured or evaluated; run again") from None
    return {
        "id": model.id,
        "architecture": model.architecture.to_dict(),
        "macs": kept_macs(run.network, model.architecture),
        "kept_weights": model.kept_weights,
        "file": file,
        "file_bytes": run.path(file).stat().st_size,
        "requested_latency_ms": model.requested_latency_ms,
        "predicted_latency_ms": model.predicted_latency_ms,
        "measured_latency_ms": measured.median_ms if measured else None,
        "search_error": model.search_error,
        "test_error": score.test_error,
    }


def _layers(run: Run) -> list[dict[str, Any]]:
    """Full width of each channel group and the layers that can be pruned, for the page's bars."""
    space = run.space
    groups = [{"name": v.name, "channels": int(v.maximum)} for v in space.variables if v.kind == "width"]
    return [*groups, *({"name": layer, "prunable": True} for layer in prunable_layers(run.network))]


def _front(run: Run) -> list[dict[str, float]]:
    """Predicted objectives along the front that the search found."""
    return [dict(c.objectives) for c in records.Front.read(run.path(records.FRONT)).candidates]
