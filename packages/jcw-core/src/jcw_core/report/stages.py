"""The last stage: ``report.json`` and ``report.html``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jcw_core.errors import DeviceError, FormatError
from jcw_core.files import atomic, read_json, write_json
from jcw_core.network.shrink import kept_macs
from jcw_core.protocols import DeviceInfo
from jcw_core.recipe.recipe import Recipe
from jcw_core.registry import Registry
from jcw_core.run import records
from jcw_core.run.context import Context
from jcw_core.space.space import prunable_layers

REPORT = "report.json"
PAGE = "report.html"


class ReportStage:
    """Puts requested, predicted and measured side by side."""

    name = "report"
    section = ""
    options = None
    reads = ("network", "data", "space")
    makes = (REPORT, PAGE)

    def needs(self, recipe: Recipe, registry: Registry) -> tuple[str, ...]:
        """All that was found, trained and measured."""
        return (records.FRONT, records.MODELS, records.EXPORTS, records.MEASUREMENTS, records.EVALUATION)

    def run(self, context: Context) -> Sequence[str]:
        """Write the JSON, then the page made from it."""
        from jcw_core.report.page import render

        report = assemble(context)
        write_json(context.path(REPORT), report)
        sections = sorted(context.registry.report_sections.values(), key=lambda s: (s.order, s.name))
        with atomic(context.path(PAGE)) as temporary:
            # Names in JSON files may be no characters.
            temporary.write_text(render(report, sections), encoding="utf-8", errors="backslashreplace")
        return ()


def assemble(context: Context) -> dict[str, Any]:
    """The content of ``report.json``.

    Raises:
        FormatError: a file that an earlier stage wrote lacks a model.
    """
    measurements = read_json(
        context.path(records.MEASUREMENTS), kind="jcw-measurements/1", objects=("device", "models")
    )
    evaluation = read_json(context.path(records.EVALUATION), kind="jcw-evaluation/1", objects=("models",))
    exports = records.read_exports(context.path(records.EXPORTS))
    rows = {
        model.id: _row(context, model, exports, measurements["models"], evaluation["models"])
        for model in records.ChosenModel.read_all(context.path(records.MODELS))
    }
    if records.BASELINE not in rows:
        raise FormatError(
            f"{context.path(records.MODELS)}: no model {records.BASELINE!r}; run the retrain stage again"
        )
    report: dict[str, Any] = {
        "format": "jcw-report/1",
        "device": _device(context, measurements["device"]),
        "network": context.network.name,
        "dataset": context.recipe.data.name,
        "layers": _layers(context),
        "front": _front(context),
        "baseline": rows.pop(records.BASELINE),
        "models": sorted(rows.values(), key=lambda row: row["predicted_latency_ms"] or 0.0),
    }
    for section in context.registry.report_sections.values():
        data = section.data(context)
        if data is not None:
            report[section.name] = dict(data)
    return report


def _row(
    context: Context,
    model: records.ChosenModel,
    exports: Mapping[str, Mapping[str, str]],
    measurements: Mapping[str, Any],
    evaluation: Mapping[str, Any],
) -> dict[str, Any]:
    """What is known of a model; the mappings are by identifier."""
    try:
        files = exports[model.id]
        file = files.get("jcw") or next(iter(files.values()))
        measured = measurements[model.id]
        measured_ms = measured["median_ms"] if measured else None
        test_error = evaluation[model.id]["test_error"]
    except (KeyError, TypeError, StopIteration):
        raise FormatError(f"model {model.id!r} was not exported, measured or evaluated; run again") from None
    if test_error is None or not (records.is_amount(test_error) and records.is_amount(measured_ms)):
        raise FormatError(
            f"model {model.id!r} has median_ms {measured_ms!r:.40} and test_error {test_error!r:.40}, "
            "expected numbers; run again"
        )
    return {
        "id": model.id,
        "architecture": model.architecture.to_dict(),
        "macs": kept_macs(context.network, model.architecture),
        "kept_weights": model.kept_weights,
        "file": file,
        "file_bytes": context.path(file).stat().st_size,
        "requested_latency_ms": model.requested_latency_ms,
        "predicted_latency_ms": model.predicted_latency_ms,
        "measured_latency_ms": measured_ms,
        "search_error": model.search_error,
        "test_error": test_error,
    }


def _device(context: Context, document: dict[str, Any]) -> dict[str, Any]:
    """What was measured on, as the stage before wrote it."""
    try:
        DeviceInfo(**document)
    except (TypeError, DeviceError) as error:
        raise FormatError(
            f"{context.path(records.MEASUREMENTS)}: its device is damaged ({error}); run again"
        ) from None
    return document


def _layers(context: Context) -> list[dict[str, Any]]:
    """Full width of each channel group and the layers that can be pruned, for the page's bars."""
    space = context.space
    groups = [{"name": v.name, "channels": int(v.maximum)} for v in space.variables if v.kind == "width"]
    return [*groups, *({"name": layer, "prunable": True} for layer in prunable_layers(context.network))]


def _front(context: Context) -> list[dict[str, float]]:
    """Predicted objectives along the front that the search found."""
    return [dict(c.objectives) for c in records.Front.read(context.path(records.FRONT)).candidates]
