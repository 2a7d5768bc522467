"""What retraining adds to the report: how ADMM has converged."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from jcw_core.protocols import Run
from jcw_core.report.charts import Series, plot
from jcw_core.run.records import MODELS, ChosenModel
from jcw_retrain.residuals import read_residuals, residuals_of


class AdmmSection:
    """Residuals of each model: those of all its layers in the data, their mean in the plot."""

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
        )


def _means(layers: Mapping[str, list[float]]) -> list[tuple[float, float]]:
    """(epoch, mean over layers), epochs counted from 1."""
    epochs = zip(*layers.values(), strict=True)
    return [(float(epoch), sum(values) / len(values)) for epoch, values in enumerate(epochs, start=1)]
