"""What a search has found so far, for those who watch it: the front of its checkpoint."""

from __future__ import annotations

from pathlib import Path

from jcw_core.report.axes import axis
from jcw_core.report.charts import Series, plot
from jcw_search import checkpoint
from jcw_search.state import State


def so_far(path: Path) -> str:
    """A line of figures and a plot for each objective beside the first; ``""`` where there is no checkpoint.

    Args:
        path: of the checkpoint.
    """
    found = checkpoint.read(path)
    if found is None:
        return ""
    state, settings = found
    names = settings.get("objectives") if isinstance(settings, dict) else None
    if not isinstance(names, list) or len(names) != state.objectives.shape[-1] or not len(state.hypervolume):
        return ""
    plots = "".join(_plot(state, list(map(str, names)), column) for column in range(1, len(names)))
    return (
        f"<p>{len(state.values)} architectures evaluated, {len(state.front)} of them on the front; "
        f"hypervolume {state.hypervolume[-1]:.3f}.</p>{plots}"
    )


def _plot(state: State, names: list[str], column: int) -> str:
    (x_label, x_scale), (y_label, y_scale) = axis(names[0]), axis(names[column])
    rows = {"last population": state.population, "front so far": state.front}
    points = {
        label: [
            (x_scale * float(x), y_scale * float(y)) for x, y in state.objectives[indices][:, (0, column)]
        ]
        for label, indices in rows.items()
    }
    return plot(
        [
            Series("last population", points["last population"], "points", colour=5),
            Series("front so far", points["front so far"], "both", colour=0),
        ],
        x_label=x_label,
        y_label=y_label,
        width=760,
        height=420,
        from_zero=True,
    )
