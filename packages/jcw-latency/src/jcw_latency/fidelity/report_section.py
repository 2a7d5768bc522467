"""The report section ``fidelity``: predicted against measured latency, in numbers and two plots."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from jcw_core.errors import FormatError
from jcw_core.protocols import Run
from jcw_core.report.charts import Series, plot
from jcw_core.run import records
from jcw_latency.fidelity.check import machine
from jcw_latency.fidelity.verdict import Verdict

_WIDTH = 500
"""Pixels of each plot: two fit beside each other on the report's page."""


_FIGURES = ("mape", "max_error", "bias", "kendall_tau", "macs_kendall_tau", "networks")
_POINT = ("predicted_ms", "measured_ms", "macs")


class FidelitySection:
    """Predicted against measured latency of random networks, beside MACs against latency."""

    name = "fidelity"
    title = "How good the latency predictions are"
    order = 30

    def data(self, run: Run) -> Mapping[str, Any] | None:
        """What the stage ``measure`` found; None when no network was run whole.

        Raises:
            FormatError: the file holds something else.
        """
        path = run.path(records.MEASUREMENTS)
        found = records.Measurements.read(path).fidelity
        if found is not None and not _is_fidelity(found):
            raise FormatError(f"{path}: fidelity is {found!r:.60}, which is no check; run again")
        return None if found is None else dict(found)

    def summary(self, data: Mapping[str, Any]) -> str:
        """The verdict in a line; ``""`` where there is none."""
        verdict = Verdict.from_dict(data.get("verdict"))
        return "" if verdict is None else str(verdict)

    def html(self, data: Mapping[str, Any]) -> str:
        """The verdict, a sentence and two scatter plots, side by side where the window is wide enough."""
        predicted = [(p["predicted_ms"], p["measured_ms"]) for p in data["points"]]
        macs = [(p["macs"] / 1e6, p["measured_ms"]) for p in data["points"]]
        verdict = Verdict.from_dict(data.get("verdict"))
        speed = "" if data.get("slowdown") is None else f" {machine(data['slowdown'])}."
        return (
            f"<p>{_headline(verdict)}{data['networks']} random networks ran whole. The prediction is off by {data['mape']:.1%} on "
            f"average (bias {data['bias']:+.1%}, at most {data['max_error']:.1%}); Kendall's tau of its order "
            f"is {data['kendall_tau']:.3f}, that of multiply-accumulates {data['macs_kendall_tau']:.3f}."
            f"{speed}</p>"
            + plot(
                [
                    Series(
                        f"MAPE {data['mape']:.1%}, Kendall's tau {data['kendall_tau']:.3f}; dashed: equal",
                        predicted,
                        titles=[f"predicted {x:.4g} ms, measured {y:.4g} ms" for x, y in predicted],
                    )
                ],
                x_label="predicted latency, ms",
                y_label="measured latency, ms",
                width=_WIDTH,
                diagonal=True,
            )
            + plot(
                [
                    Series(
                        f"Kendall's tau {data['macs_kendall_tau']:.3f}",
                        macs,
                        titles=[f"{x:.4g} million, measured {y:.4g} ms" for x, y in macs],
                        colour=1,
                    )
                ],
                x_label="multiply-accumulates, millions",
                y_label="measured latency, ms",
                width=_WIDTH,
                from_zero=True,
            )
        )


def _headline(verdict: Verdict | None) -> str:
    """The verdict with its first words in bold; reports of older runs have none."""
    if verdict is None:
        return ""
    level, _, rest = str(verdict).partition(": ")
    said = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(rest))
    return f"<strong>{escape(level.capitalize())}</strong>: {said}.</p><p>"


def _is_fidelity(found: Any) -> bool:
    """True for what ``jcw_latency.fidelity.check.Fidelity.to_dict`` makes."""
    points = found.get("points") if isinstance(found, dict) else None
    if not isinstance(points, list) or not all(isinstance(point, dict) for point in points):
        return False
    numbers = [found.get(key) for key in _FIGURES] + [point.get(key) for point in points for key in _POINT]
    slowdown = found.get("slowdown")
    told = "verdict" not in found or Verdict.from_dict(found["verdict"]) is not None
    return told and all(map(records.is_finite, numbers)) and (slowdown is None or records.is_finite(slowdown))
