"""Whether a model of a report keeps to the latency that was requested of it, and what its error is."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any


def excess(model: Mapping[str, Any]) -> float | None:
    """By which share of its budget a model was measured to be slower.

    Args:
        model: with ``requested_latency_ms`` and ``measured_latency_ms``, as in ``report.json``.

    Returns:
        above 0; 0 when it is not slower, None when nothing was requested or measured.
    """
    requested, measured = model["requested_latency_ms"], model["measured_latency_ms"]
    if requested is None or measured is None:
        return None
    return max(0.0, float(measured / requested - 1)) if requested else inf


def in_words(excess: float) -> str:
    """A share in percent, with a digit where it is small: ``190 %``, ``0.4 %``."""
    percent = 100 * excess
    return (
        f"{percent:.0f} %" if percent >= 10 else f"{percent:.1f} %" if percent >= 0.1 else "less than 0.1 %"
    )


def score(model: Mapping[str, Any]) -> float:
    """The test error of a model, or its distance from the dense network's outputs, where there are no classes."""
    return float(model["distance"] if model["test_error"] is None else model["test_error"])


def error_head(report: Mapping[str, Any]) -> str:
    """What the models of a report are judged by: where images have no labels, they are held to the dense one."""
    if report["baseline"]["test_error"] is None:
        return "test distance"
    return "other than dense" if report.get("scored_against") == "dense" else "test error"


def measured(model: Mapping[str, Any]) -> str:
    """What a model is judged by: its error, or its distance from the dense network's outputs without classes."""
    return "error" if model["test_error"] is not None else "distance"


def measure(report: Mapping[str, Any]) -> str:
    """What the models of a report are judged by, as its dense network is."""
    return measured(report["baseline"])
