"""The plot of accuracy against latency: the search's front, the models, their budgets and the dense network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jcw_core.report import budget
from jcw_core.report.charts import Series, plot


def front(report: Mapping[str, Any]) -> str:
    """The plot, from zero on both axes, so that distances are shares.

    Args:
        report: as in ``report.json``.
    """
    models = sorted(report["models"], key=_point)
    kind = budget.measure(report)
    found = [(c["latency"], c[kind] * 100) for c in report["front"] if {"latency", kind} <= c.keys()]
    dense = report["baseline"]
    return plot(
        [
            Series("search front (predicted)", found, "line", colour=5),
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
