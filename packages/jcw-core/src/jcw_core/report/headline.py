"""The first sentences of the report: the fastest model that stays as good as the dense network, and the fastest of all."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from jcw_core.report import budget

CLOSE = 0.01
"""How much more of the test error, or of the outputs' squares, counts as good as the dense network: one point."""


def headline(report: Mapping[str, Any]) -> str:
    """Both, or why there is only one; ``""`` where nothing was measured.

    Args:
        report: as in ``report.json``.
    """
    baseline = report["baseline"]
    measured = [m for m in report["models"] if m["measured_latency_ms"]]
    if not baseline["measured_latency_ms"] or not measured:
        return ""
    close = [m for m in measured if budget.score(m) <= budget.score(baseline) + CLOSE]
    # Of models equally fast, the one of the least error.
    fastest = min(measured, key=_speed_then_error)
    if not close:
        least = min(measured, key=lambda m: (budget.score(m), m["measured_latency_ms"]))
        kind = budget.measure(report)
        told = f"No model is within one point of the dense network's {kind}. The least {kind} is that of "
        return f"<p>{told}{_told(least, baseline)}.</p>{_fastest(fastest, least, baseline)}"
    best = min(close, key=_speed_then_error)
    return (
        f"<p>Within one point of the dense network's {budget.measure(report)}, the fastest model is "
        f"{_told(best, baseline)}.</p>{_fastest(fastest, best, baseline)}"
    )


def _fastest(fastest: Mapping[str, Any], named: Mapping[str, Any], baseline: Mapping[str, Any]) -> str:
    """The sentence on the fastest model, where it is not the one that was named already."""
    return "" if fastest is named else f"<p>The fastest of all is {_told(fastest, baseline)}.</p>"


def _told(model: Mapping[str, Any], baseline: Mapping[str, Any]) -> str:
    latency = model["measured_latency_ms"]
    change = (budget.score(model) - budget.score(baseline)) * 100
    compared = (
        f"{abs(change):.2f} points {'more' if change > 0 else 'less'} than its"
        if round(change, 2)
        else "as its"
    )
    return (
        f"<strong>{escape(str(model['id']))}</strong>: {latency:.3g} ms, {baseline['measured_latency_ms'] / latency:.2f} "
        f"times as fast as the dense network, {budget.measured(model)} {budget.score(model):.2%}, {compared} "
        f"{budget.score(baseline):.2%}"
    )


def _speed_then_error(model: Mapping[str, Any]) -> tuple[float, float]:
    return float(model["measured_latency_ms"]), budget.score(model)
