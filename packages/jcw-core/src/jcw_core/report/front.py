"""The plot of accuracy against latency: the search's front, uniform and dense networks, the models and their budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jcw_core.report import budget
from jcw_core.report.charts import Series, plot

_UNIFORM = {
    "channels": ("one share of channels", 2),
    "weights": ("one density", 4),
    "both": ("one share of both", 6),
}
"""Names and colours of the kinds of uniform pruning."""


def front(report: Mapping[str, Any]) -> str:
    """The plot, from zero on both axes, so that distances are shares, and which lines it has none of.

    Args:
        report: as in ``report.json``.
    """
    models = sorted(report["models"], key=_point)
    kind = budget.measure(report)
    found = [(c["latency"], c[kind] * 100) for c in report["front"] if {"latency", kind} <= c.keys()]
    dense = report["baseline"]
    chart = plot(
        [
            Series("search front (predicted)", found, "line", colour=5),
            *_uniform(report, kind),
            Series("dense network", [_point(dense)], "points", [_tooltip(dense)], 1, ["dense"]),
            Series(
                "trained models",
                [_point(m) for m in models],
                "both",
                [_tooltip(m) for m in models],
                0,
                [str(m["id"]) for m in models],
            ),
        ],
        x_label="latency, ms",
        y_label=f"{kind}, %",
        width=760,
        height=420,
        from_zero=True,
        limits=("budgets (requested latency)", _budgets(report)),
    )
    return chart + _absent(report)


def _uniform(report: Mapping[str, Any], kind: str) -> list[Series]:
    """A line for each kind of uniform pruning, by the estimates that made the front; none in a report of an older version."""
    lines = []
    for name, rows in report.get("uniform", {}).items():
        label, colour = _UNIFORM.get(name, (name, 5))
        points = [(c["latency"], c[kind] * 100) for c in rows if {"latency", kind} <= c.keys()]
        titles = [f"{label}: {ms:.3f} ms, {kind} {share:.2f} %, predicted" for ms, share in points]
        lines += [Series(f"{label} (predicted)", points, "both", titles, colour, dashed=True)] * bool(points)
    return lines


def _absent(report: Mapping[str, Any]) -> str:
    """Why a search that varies channels and weights has no line for one of them alone."""
    uniform = report.get("uniform", {})
    absent = [label for name, (label, _) in _UNIFORM.items() if name not in uniform]
    if "both" not in uniform or not absent:
        return ""
    kinds = " and none for ".join(absent)
    return (
        f'<p class="note">No line for {kinds}: all such networks are slower than the slowest of the front, or had no '
        "estimate.</p>"
    )


def _budgets(report: Mapping[str, Any]) -> list[float]:
    """The latencies that were requested, milliseconds, each once."""
    requested = (m["requested_latency_ms"] for m in report["models"])
    return sorted({float(ms) for ms in requested if ms is not None})


def _point(model: Mapping[str, Any]) -> tuple[float, float]:
    latency = model["measured_latency_ms"] or model["predicted_latency_ms"] or float("nan")
    return float(latency), budget.score(model) * 100


def _tooltip(model: Mapping[str, Any]) -> str:
    measured = model["measured_latency_ms"]
    latency = "-" if measured is None else f"{measured:.3f}"
    return f"{model['id']}: {latency} ms, {budget.measured(model)} {budget.score(model):.2%}"
