"""How a plot shows the values of an objective."""

from __future__ import annotations

_SHARES = ("error", "distance")


def axis(objective: str) -> tuple[str, float]:
    """The label of its axis, and by what its values are multiplied: shares are shown in percent."""
    if objective in _SHARES:
        return f"{objective}, %", 100.0
    return ("latency, ms" if objective == "latency" else objective), 1.0
