"""The last stage: ``report.json`` and ``report.html``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jcw_core.errors import FormatError
from jcw_core.files import atomic, write_json
from jcw_core.network.architecture import Architecture
from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network
from jcw_core.network.shrink import kept_macs
from jcw_core.protocols import Following, Run
from jcw_core.report.budget import excess
from jcw_core.report.facts import facts
from jcw_core.run import records
from jcw_core.space.whole import fixed_layers, layers_of, unpruned_layers

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

    def follows(self, run: Run) -> tuple[str, ...]:
        """What its sections follow."""
        sections = run.registry.report_sections.values()
        return tuple(name for one in sections if isinstance(one, Following) for name in one.follows(run))

    def run(self, run: Run) -> Sequence[str]:
        """Write the JSON, then the page made from it."""
        from jcw_core.report.page import render

        report = assemble(run)
        write_json(run.path(REPORT), report)
        sections = sorted(run.registry.report_sections.values(), key=lambda s: (s.order, s.name))
        with atomic(run.path(PAGE)) as temporary:
            # Names in JSON files may be no characters.
            temporary.write_text(render(report, sections), encoding="utf-8", errors="backslashreplace")
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
    front = records.Front.read(run.path(records.FRONT))
    report: dict[str, Any] = {
        "format": FORMAT,
        "made": facts(run),
        "device": measurements.device.to_dict(),
        "network": run.network.name,
        "dataset": run.recipe.data.name,
        "images": evaluation.models[records.BASELINE].images
        if records.BASELINE in evaluation.models
        else None,
        "scored_against": evaluation.against,
        "layers": _layers(run.network, run.recipe.space.step),
        "front": _objectives(front.candidates),
        "uniform": {kind: _objectives(found) for kind, found in front.uniform.items()},
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
    row = {
        "id": model.id,
        "architecture": model.architecture.to_dict(),
        "kept": kept_by_layer(run.network, model.architecture),
        "macs": kept_macs(run.network, model.architecture),
        "kept_weights": model.kept_weights,
        "file": file,
        "file_bytes": run.path(file).stat().st_size,
        "requested_latency_ms": model.requested_latency_ms,
        "predicted_latency_ms": model.predicted_latency_ms,
        "measured_latency_ms": measured.median_ms if measured else None,
        "search_error": model.search_error,
        "test_error": score.test_error,
        "distance": score.distance,
    }
    over = excess(row)
    return {**row, "meets_budget": None if over is None else over == 0}


def _layers(network: Network, step: int) -> list[dict[str, Any]]:
    """The layers of a network in its order: full width, and why a search leaves their channels or weights whole."""
    fixed, unpruned = fixed_layers(network, step), unpruned_layers(network)
    return [
        {
            "name": layer,
            "channels": network.shapes[layer][0],
            "channels_whole": fixed.get(layer),
            "weights_whole": unpruned.get(layer),
        }
        for layer in layers_of(network)
    ]


def kept_by_layer(network: Network, architecture: Architecture) -> dict[str, dict[str, Any]]:
    """What an architecture keeps of each layer: output channels, and the share of the weights between those kept."""
    coupling = couple(network)
    return {
        layer: {
            "channels": coupling.channels(layer, architecture.widths),
            "density": architecture.densities.get(layer, 1.0),
        }
        for layer in layers_of(network)
    }


def _objectives(candidates: Sequence[records.Candidate]) -> list[dict[str, float]]:
    """What was predicted of each."""
    return [dict(candidate.objectives) for candidate in candidates]
