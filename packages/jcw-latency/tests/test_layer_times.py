"""Milliseconds per layer: as a device tells them, else as the table predicts them, and drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from latency_samples import Plugin, SyntheticDevice, SyntheticPlugin
from test_latency_plugin import Pixels, context_of, export_models

from jcw_core.backbones.mobilenet_v1 import MOBILENET_V1
from jcw_core.errors import DeviceError
from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse
from jcw_core.registry import Registry
from jcw_core.run import records
from jcw_core.run.context import Context
from jcw_latency import LatencyPredictor, LatencyTable
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.layer_times import LayerTimesSection, by_fused_layer

HALF = Architecture({"block.conv1": 8}, {})


class Telling(SyntheticDevice):
    """Every node of a model takes a millisecond, and so does a step before them."""

    def measure_layers(self, path: Path, *, rounds: int) -> Mapping[str, float]:
        network = Network.from_json(json.loads(path.read_text())["network"])
        return {**{part.name: 1e-3 for layer in fuse(network) for part in layer.parts}, "normalise": 1e-3}


@pytest.fixture
def context(network: Network, tmp_path: Path) -> Context:
    """A run whose models were exported, and whose device has a table."""
    registry = Registry({"synthetic": Plugin(), "pixels": Pixels()})
    made = context_of(registry, network, tmp_path, 'network = { file = "net.json" }')
    made.registry.stages["profile"].run(made)
    export_models(made, records.BASELINE, "m1")
    models = [
        records.ChosenModel(name, architecture, None, 1.0, None, 10, f"{name}.txt")
        for name, architecture in ((records.BASELINE, Architecture({}, {})), ("m1", HALF))
    ]
    records.ChosenModel.write_all(made.path(records.MODELS), models)
    return made


def section_of(context: Context) -> Mapping[str, Any]:
    context.registry.stages["measure"].run(context)
    found = context.registry.report_sections["layer_times"].data(context)
    assert found is not None
    return found


def test_a_device_that_tells_is_believed(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyntheticPlugin, "open", lambda *_: Telling())
    found = section_of(context)
    assert found["kind"] == "measured"
    times = {layer.name: float(len(layer.parts)) for layer in fuse(context.network)}
    assert list(found["models"]) == [records.BASELINE, "m1"]
    assert list(found["models"]["m1"].items()) == [("normalise", 1.0), *times.items()]


def test_elsewhere_the_table_predicts(context: Context) -> None:
    found = section_of(context)
    assert "layers_ms" not in json.loads(context.path(records.MEASUREMENTS).read_text())
    assert found["kind"] == "predicted"
    predictor = LatencyPredictor(LatencyTable.load(context.path(records.TABLE)), context.space)
    assert found["models"]["m1"] == predictor.breakdown(HALF).layers
    assert found["models"]["m1"]["block.conv1"] < found["models"][records.BASELINE]["block.conv1"]


def test_without_a_table_or_for_models_of_no_space_there_is_no_section(context: Context) -> None:
    section = LayerTimesSection()
    section_of(context)
    (model, _) = records.ChosenModel.read_all(context.path(records.MODELS))
    strange = records.ChosenModel("m2", Architecture({"nowhere": 8}, {}), None, 1.0, None, 10, "m2.txt")
    records.ChosenModel.write_all(context.path(records.MODELS), [model, strange])
    assert section.data(context) is None
    context.path(records.TABLE).unlink()
    assert section.data(context) is None


@pytest.mark.parametrize("answer", [3, {"a": None}, {"a": -1.0}, {"a": float("nan")}, {1: 1.0}])
def test_an_answer_that_is_no_time_is_refused(tmp_path: Path, answer: object) -> None:
    class Odd(SyntheticDevice):
        def measure_layers(self, path: Path, *, rounds: int) -> object:
            return answer

    with pytest.raises(DeviceError, match="expected seconds by layer"):
        GuardedDevice(Odd(), 10.0).measure_layers([tmp_path], 1)
    assert GuardedDevice(SyntheticDevice(), 10.0).measure_layers([tmp_path], 1) is None


def test_steps_of_one_fused_layer_are_added_up() -> None:
    network = MOBILENET_V1.build(num_classes=3, input_size=32, width=0.25)
    pair = next(layer for layer in fuse(network) if layer.then is not None)
    assert pair.then is not None
    last = fuse(network)[-1].name
    found = by_fused_layer(network, {last: 1.0, pair.name: 0.002, pair.then.name: 0.001})
    assert found == {pair.name: pytest.approx(3.0), last: 1000.0}
    assert list(found) == [pair.name, last]


def test_charts_show_both_models_on_one_scale_and_say_which_times_they_are() -> None:
    models = {records.BASELINE: {"one": 4.0, "<two>": 1.0}, "m1": {"one": 1.0, "extra": 0.0}, "m2": {}}
    page = LayerTimesSection().html({"kind": "measured", "models": models})
    assert page.count("<details open>") == 1
    assert "dense, 5 ms" in page
    first = page.partition("<summary>m1</summary>")[2].partition("</details>")[0]
    bars = re.findall(r'class="bar[^>]* width="([\d.]+)"[^>]*><title>([^<]*)</title>', first)
    words = [word for _, word in bars]
    assert words[:2] == ["one: dense, 5 ms 4.000", "one: m1, 1 ms 1.000"]
    assert "&lt;two&gt;: m1, 1 ms 0.000" in words
    assert "extra: m1, 1 ms 0.000" in words
    assert float(bars[0][0]) == pytest.approx(4 * float(bars[1][0]), abs=0.4)
    assert "As the latency table predicts them" in LayerTimesSection().html(
        {"kind": "predicted", "models": {}}
    )
