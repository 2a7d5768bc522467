"""What ``jcw compress`` hands over: a model for each budget, and in a line each what it costs and what it lost."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jcw_core.files import atomic, read_json
from jcw_core.report.budget import in_words
from jcw_core.run.context import Context
from jcw_core.run.records import EXPORTS, read_exports

Row = Mapping[str, Any]


def hand_over(context: Context, budgets_ms: Sequence[float]) -> list[str]:
    """Copy the model of each budget into the run's folder, as ``model.jcw`` and so on.

    Returns:
        lines for the user.
    """
    report = read_json(context.path("report.json"))
    exports = read_exports(context.path(EXPORTS))
    lines = [_of_dense(report)]
    for budget in budgets_ms:
        row = chosen([report["baseline"], *report["models"]], budget)
        stem = "model" if len(budgets_ms) == 1 else f"model-{budget:g}ms"
        files = [
            _copied(context.path(name), context.path(f"{stem}{Path(name).suffix}"))
            for name in exports[row["id"]].values()
        ]
        lines += [f"{', '.join(map(str, files))}: {_cost(row, report, budget)}", f"  {loss(row, report)}"]
    return lines


def chosen(models: Sequence[Row], budget_ms: float) -> Row:
    """The model for a budget: of those measured to keep to it, the one predicted to be slowest; else the fastest.

    The dense network is one of them. No accuracy is looked at, so that what is said of it is of images that chose nothing.
    """
    fitting = [row for row in models if _time(row) <= budget_ms]
    if fitting:
        return max(fitting, key=lambda row: row["predicted_latency_ms"] or 0.0)
    return min(models, key=_time)


def loss(row: Row, report: Mapping[str, Any]) -> str:
    """What a model lost on the images that it is scored on."""
    images, error, dense = report["images"], row["test_error"], report["baseline"]["test_error"]
    if error is None:
        return f"outputs {row['distance']:.2%} from the dense network's on {images} held-out images"
    if report["scored_against"] == "dense":
        return f"same class as the dense network on {1 - error:.1%} of {images} held-out images, which have no labels"
    points = 100 * (error - dense)
    change = f"{abs(points):.1f} points {'lost' if points >= 0 else 'gained'}"
    return f"{1 - error:.1%} of {images} held-out images right, dense {1 - dense:.1%}: {change}"


def _time(row: Row) -> float:
    """Milliseconds as measured, as predicted on a device that runs no models."""
    measured = row["measured_latency_ms"]
    return float(row["predicted_latency_ms"] if measured is None else measured)


def _of_dense(report: Mapping[str, Any]) -> str:
    row = report["baseline"]
    return f"dense: {_time(row):.4g} ms, {row['file_bytes'] / 1e6:.2f} MB"


def _cost(row: Row, report: Mapping[str, Any], budget: float) -> str:
    time, dense = _time(row), _time(report["baseline"])
    if row["id"] == report["baseline"]["id"]:
        return f"the dense network as it is, within the budget of {budget:g} ms"
    over = time / budget - 1
    kept = "within" if over <= 0 else f"{in_words(over)} over"
    how = "predicted" if row["measured_latency_ms"] is None else "measured"
    return (
        f"{time:.4g} ms {how}, {kept} the budget of {budget:g} ms, {dense / time:.2f} times as fast as dense, "
        f"{row['file_bytes'] / 1e6:.2f} MB"
    )


def _copied(source: Path, target: Path) -> Path:
    with atomic(target) as temporary:
        shutil.copyfile(source, temporary)
    return target
