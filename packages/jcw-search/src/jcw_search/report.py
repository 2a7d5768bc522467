"""What the search adds to the report."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from jcw_core import records
from jcw_core.context import Context
from jcw_core.errors import FormatError


class SearchSection:
    """Generations, evaluations, the hypervolume curve and the last population's latencies."""

    name = "search"
    title = "Search"
    order = 40

    def data(self, context: Context) -> Mapping[str, Any] | None:
        """``hypervolume`` is the last value, ``hypervolume_curve`` all of them.

        Raises:
            FormatError: the front does not say how it was found.
        """
        path = context.path(records.FRONT)
        if not path.is_file():
            return None
        found = dict(records.Front.read(path).search)
        _check(found, path)
        curve = found.pop("hypervolume")
        return {**found, "hypervolume": curve[-1], "hypervolume_curve": curve}

    def html(self, data: Mapping[str, Any]) -> str:
        """Two plots under one line of figures."""
        from jcw_core.charts import Series, histogram, plot

        curve = Series("hypervolume", list(enumerate(data["hypervolume_curve"])), kind="line")
        latencies = {str(data["strategy"]): data["population_latency_ms"]}
        return (
            f"<p>{data['evaluated']} architectures in {data['generations']} generations of "
            f"{data['population']}, variant {escape(str(data['variant']))}, selection "
            f"{escape(str(data['strategy']))}; hypervolume {data['hypervolume']:.3f}.</p>"
            f"{plot([curve], x_label='generation', y_label='hypervolume')}"
            f"{histogram(latencies, x_label='predicted latency of the last population (ms)')}"
        )


def _check(search: Mapping[str, Any], path: Path) -> None:
    """Raise ``FormatError`` for what the page cannot draw."""
    for key in ("strategy", "variant", "generations", "population", "evaluated"):
        if key not in search:
            raise FormatError(f"{path}: search has no {key}; run the search again")
    for key in ("hypervolume", "population_latency_ms"):
        values = search.get(key)
        if not isinstance(values, list) or not values or not all(map(records.is_finite, values)):
            raise FormatError(
                f"{path}: search.{key} is {values!r:.60}, expected numbers; run the search again"
            )
