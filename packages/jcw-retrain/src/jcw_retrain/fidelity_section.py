"""What ``jcw search fidelity`` found, in the report of the run."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from jcw_core.errors import FormatError
from jcw_core.files import digest, read_json
from jcw_core.protocols import Run
from jcw_core.run.records import is_finite

RANK_FIDELITY = "rank_fidelity.json"
"""``{"format": "jcw-rank-fidelity/1", "objective", "networks", "epochs", "seed", "kendall_tau", "interval": [low,
high], "confidence", "resamples", "points": [{"architecture", "estimate", "error"}], "inputs"}``; ``inputs`` are the digests of
the files that made the estimates."""
FORMAT = "jcw-rank-fidelity/1"


class FidelitySection:
    """Estimates of the search beside errors of networks that were trained alone, where that was asked for."""

    name = "rank_fidelity"
    title = "Whether the search ranks as training does"
    order = 45

    def follows(self, run: Run) -> tuple[str, ...]:
        """What the command writes."""
        return (RANK_FIDELITY,)

    def data(self, run: Run) -> Mapping[str, Any] | None:
        """The content of the file; None without one, or where it is about estimates of another supernet.

        Raises:
            FormatError: a damaged file.
        """
        path = run.path(RANK_FIDELITY)
        if not path.is_file():
            return None
        found = read_json(path, kind=FORMAT)
        inputs = found.get("inputs")
        if not isinstance(inputs, dict) or any(
            digest(run.path(str(name))) != was for name, was in inputs.items()
        ):
            return None
        for key, fits in _KINDS.items():
            if not fits(found.get(key)):
                raise FormatError(f"{path}: {key} is {found.get(key)!r:.60}; run jcw search fidelity again")
        return {key: found[key] for key in _KINDS}

    def html(self, data: Mapping[str, Any]) -> str:
        """The verdict in a line, and the networks as points."""
        from jcw_core.report.charts import Series, plot

        low, high = data["interval"]
        estimated = str(data["objective"])
        points = [(float(p["estimate"]), float(p["error"]) * 100) for p in data["points"]]
        chart = plot(
            [Series("networks", points)],
            x_label=f"{estimated}, estimated by the search",
            y_label="error, trained alone, %",
        )
        return (
            f"<p>{data['networks']} random networks, each trained alone for {data['epochs']} epochs: Kendall's tau "
            f"between their errors and the search's {escape(estimated)} is {data['kendall_tau']:.3f} "
            f"({data['confidence']:.0%} interval {low:.3f} to {high:.3f}). One is the same order, zero none.</p>{chart}"
        )


def _is_interval(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_finite, value))


def _are_points(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(p, dict) and is_finite(p.get("estimate")) and is_finite(p.get("error")) for p in value
    )


_KINDS = {
    "objective": lambda value: isinstance(value, str),
    **dict.fromkeys(("networks", "epochs", "kendall_tau", "confidence"), is_finite),
    "interval": _is_interval,
    "points": _are_points,
}
"""What is drawn, by what it must be."""
