"""What retraining adds to the report: how ADMM has converged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from jcw_core.protocols import Run
from jcw_core.report.charts import Series, plot
from jcw_core.run.records import MODELS, ChosenModel
from jcw_retrain.residuals import read_residuals, residuals_of

_NAMED = 5
"""Layers of a plot that have a colour; more cannot be told apart."""
_OTHERS, _GREY = "others", 5


class AdmmSection:
    """Residuals of each model: the mean of its layers in the plot, and folded below it every layer."""

    name = "admm"
    title = "How far weights were from their pruned selves"
    order = 50

    def data(self, run: Run) -> Mapping[str, Any] | None:
        """``{model: {layer: [|W - U| / |W| after each epoch]}}`` of pruned models; None where there is none.

        Raises:
            FormatError: a file of residuals is missing or damaged.
        """
        models = ChosenModel.read_all(run.path(MODELS))
        found = {model.id: read_residuals(run.path(residuals_of(model.id))) for model in models}
        return {name: layers for name, layers in found.items() if layers} or None

    def html(self, data: Mapping[str, Any]) -> str:
        """A line for each model over the epochs of ADMM, and the layer that ends farthest."""
        lines = [Series(name, _means(layers), kind="both") for name, layers in data.items()]
        last = {
            f"{layer} of {name}": values[-1]
            for name, layers in data.items()
            for layer, values in layers.items()
            if values
        }
        if not last:
            return "<p>There were no epochs of ADMM.</p>"
        worst = max(last, key=lambda key: last[key])
        return (
            "<p>ADMM pulls weights W towards the pruned U: |W - U| / |W|, the mean of a model's layers. What is "
            f"left at the end, pruning cuts off at once; at most it was {last[worst]:.1%}, in {escape(worst)}. "
            "A larger <code>retrain.admm.rho</code> or more epochs bring it down.</p>"
            + plot(lines, x_label="epoch of ADMM", y_label="residual", from_zero=True)
            + "".join(_layers(name, layers) for name, layers in data.items())
        )


def _layers(name: str, layers: Mapping[str, list[float]]) -> str:
    """A model's layers, folded: a line for each, those that end farthest named, and the numbers of all."""
    if not all(layers.values()):
        return ""
    ranked = sorted(layers, key=lambda layer: -layers[layer][-1])
    lines = [
        Series(layer, _points(layers[layer]), "both", colour=colour)
        for colour, layer in enumerate(ranked[:_NAMED])
    ]
    rest = [
        Series(_OTHERS, points, "both", [f"{layer}: {x:.0f}, {y:.1%}" for x, y in points], _GREY)
        for layer in ranked[_NAMED:]
        for points in [_points(layers[layer])]
    ]
    rows = "".join(f'<tr><th scope="row">{escape(k)}</th>{_cells(layers[k])}</tr>' for k in layers)
    heads = "".join(f'<th scope="col">{epoch}</th>' for epoch, _ in enumerate(layers[ranked[0]], start=1))
    return (
        f"<details><summary>{escape(name)}, layer by layer</summary>"
        + plot([*rest, *lines], x_label="epoch of ADMM", y_label=f"residual of {name}", from_zero=True)
        + '<details><summary>As numbers</summary><div class="scroll"><table><thead><tr>'
        + f'<th scope="col">layer, epoch</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div></details></details>'
    )


def _points(values: Sequence[float]) -> list[tuple[float, float]]:
    """(epoch, value), epochs counted from 1."""
    return [(float(epoch), value) for epoch, value in enumerate(values, start=1)]


def _cells(values: Sequence[float]) -> str:
    return "".join(f"<td>{value:.1%}</td>" for value in values)


def _means(layers: Mapping[str, list[float]]) -> list[tuple[float, float]]:
    """(epoch, mean over layers), epochs counted from 1."""
    return _points([sum(values) / len(values) for values in zip(*layers.values(), strict=True)])
