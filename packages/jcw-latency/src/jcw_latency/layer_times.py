"""The report section ``layer_times``: milliseconds of each layer of a model beside the dense network's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from jcw_core.errors import ArchitectureError
from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse
from jcw_core.protocols import Run
from jcw_core.run import records
from jcw_latency.table.predictor import LatencyPredictor
from jcw_latency.table.table import LatencyTable

LayerTimes = Mapping[str, float]
"""Milliseconds by name of the fused layer."""


def by_fused_layer(network: Network, seconds: Mapping[str, float]) -> LayerTimes:
    """Add up what belongs to one fused layer, which an engine may run in several steps in one model and in one in another.

    Args:
        network: at full width.
        seconds: by node; a name that the network does not have, as of a step before its first layer, stays.

    Returns:
        milliseconds, in the order of the network.
    """
    layers = fuse(network)
    host = {part.name: layer.name for layer in layers for part in layer.parts}
    found: dict[str, float] = {}
    for name, value in seconds.items():
        layer = host.get(name, name)
        found[layer] = found.get(layer, 0.0) + value * 1e3
    place = {layer.name: index for index, layer in enumerate(layers)}
    return dict(sorted(found.items(), key=lambda pair: place.get(pair[0], -1)))


class LayerTimesSection:
    """Where the time of each model goes, as the device measured it, else as the latency table predicts it."""

    name = "layer_times"
    title = "Milliseconds per layer"
    order = 20

    def data(self, run: Run) -> Mapping[str, Any] | None:
        """``kind``, measured or predicted, and ``models``: milliseconds by model and layer; None where neither is known.

        Raises:
            FormatError: a file of the run is damaged.
        """
        chosen = records.ChosenModel.read_all(run.path(records.MODELS))
        measured = records.Measurements.read(run.path(records.MEASUREMENTS)).layers_ms
        if all(model.id in measured for model in chosen):
            return {"kind": "measured", "models": {model.id: measured[model.id] for model in chosen}}
        predicted = _predicted(run, chosen)
        return None if predicted is None else {"kind": "predicted", "models": predicted}

    def html(self, data: Mapping[str, Any]) -> str:
        """A sentence, and a chart for each model, of which the first is open."""
        models = dict(data["models"])
        dense = models.pop(records.BASELINE, {})
        how = {
            "measured": "As measured in each model while it ran; the profile adds a little to each layer.",
            "predicted": "As the latency table predicts them; the device does not tell the time of each layer.",
        }[data["kind"]]
        return f'<p class="note">{how}</p>' + "".join(
            _chart(name, layers, dense, is_open=index == 0)
            for index, (name, layers) in enumerate(models.items())
        )


def _predicted(run: Run, models: Sequence[records.ChosenModel]) -> Mapping[str, LayerTimes] | None:
    """By the run's table; None without one, or where a model is none of the search space."""
    if not run.path(records.TABLE).is_file():
        return None
    predictor = LatencyPredictor(LatencyTable.load(run.path(records.TABLE)), run.space)
    try:
        return {model.id: predictor.breakdown(model.architecture).layers for model in models}
    except ArchitectureError:
        return None


def _chart(name: str, layers: LayerTimes, dense: LayerTimes, *, is_open: bool) -> str:
    """Two bars for each layer, on one scale."""
    from jcw_core.report.charts import bars

    labels = list(dict.fromkeys((*dense, *layers)))
    times = {
        f"{title}, {sum(found.values()):.3g} ms": [found.get(label, 0.0) for label in labels]
        for title, found in (("dense", dense), (name, layers))
    }
    longest = max((ms for row in times.values() for ms in row), default=0.0) or 1.0
    chart = bars(
        labels,
        {key: [ms / longest for ms in row] for key, row in times.items()},
        words={key: [f"{ms:.3f}" for ms in row] for key, row in times.items()},
        title="milliseconds, by layer",
    )
    return f"<details{' open' if is_open else ''}><summary>{escape(name)}</summary>{chart}</details>"
