"""What the search adds to the report."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from jcw_core.errors import FormatError
from jcw_core.protocols import Run
from jcw_core.run import records


class SearchSection:
    """Generations, evaluations, failures, the hypervolume curve and the last population's latencies."""

    name = "search"
    title = "Search"
    order = 40

    def data(self, run: Run) -> Mapping[str, Any] | None:
        """``hypervolume`` is the last value, ``hypervolume_curve`` all of them, ``failed`` a count.

        Raises:
            FormatError: the front says how it was found, but not in these words.
        """
        path = run.path(records.FRONT)
        if not path.is_file():
            return None
        found = dict(records.Front.read(path).search)
        if not found:
            return None
        found.setdefault("failed", [])
        _check(found, path)
        curve, failed = found.pop("hypervolume"), found.pop("failed")
        return {**found, "failed": len(failed), "hypervolume": curve[-1], "hypervolume_curve": curve}

    def html(self, data: Mapping[str, Any]) -> str:
        """Two plots under one line of figures."""
        from jcw_core.report.charts import Series, histogram, plot

        curve = Series("hypervolume", list(enumerate(data["hypervolume_curve"])), kind="line")
        latencies = {str(data["strategy"]): data["population_latency_ms"]}
        return (
            f"<p>{data['evaluated']} architectures in {data['generations']} generations of "
            f"{data['population']}, variant {escape(str(data['variant']))}, selection "
            f"{escape(str(data['strategy']))}; hypervolume {data['hypervolume']:.3f}."
            f"{_failures(data['failed'])}</p>"
            f"{plot([curve], x_label='generation', y_label='hypervolume')}"
            f"{histogram(latencies, x_label='predicted latency of the last population (ms)')}"
        )


def _failures(count: int) -> str:
    return f" {count} more gave no finite value and were dropped; front.json names them." if count else ""


def _check(search: Mapping[str, Any], path: Path) -> None:
    """Raise ``FormatError`` for what the page cannot draw."""
    kinds = {
        **dict.fromkeys(("strategy", "variant"), _is_text),
        **dict.fromkeys(("generations", "population", "evaluated"), records.is_finite),
        **dict.fromkeys(("hypervolume", "population_latency_ms"), _is_curve),
        "failed": _is_list,
    }
    for key, fits in kinds.items():
        if not fits(search.get(key)):
            raise FormatError(f"{path}: search.{key} is {search.get(key)!r:.60}; run the search again")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_curve(values: Any) -> bool:
    return isinstance(values, list) and values != [] and all(map(records.is_finite, values))
