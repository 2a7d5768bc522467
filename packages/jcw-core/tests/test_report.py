"""The report puts together what the stages wrote, and the page shows it."""

from __future__ import annotations

import html
import json
import re
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner
from core_networks import flat_tails, networks, random_weights
from damage import misplace
from hypothesis import given, settings
from hypothesis import strategies as st
from report_samples import DEVICE, HALF, chosen, context_of, write_run

from jcw_core.backbones.mobilenet_v2 import mobilenet_v2
from jcw_core.backbones.resnet import resnet18
from jcw_core.cli.commands import show
from jcw_core.errors import FormatError, JcwError
from jcw_core.files import write_json
from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.operations import LAYERS
from jcw_core.network.shrink import shrink_weights
from jcw_core.network.weight_groups import density_mask, group_norms
from jcw_core.report.budget import excess
from jcw_core.report.stages import ReportStage, assemble, kept_by_layer
from jcw_core.run import records
from jcw_core.run.context import Context
from jcw_core.space.space import SearchSpace


@pytest.fixture
def context(tmp_path: Path) -> Context:
    made = context_of(tmp_path)
    write_run(made)
    return made


def test_report_has_the_keys_that_others_read(context: Context) -> None:
    report = assemble(context)
    assert report["device"] == DEVICE
    assert (report["network"], report["dataset"], report["extra"]) == ("toy", "toy", {"answer": 42})
    (model,) = report["models"]
    # one: 8 x 9 x 64 pixels; two: 16 x 8 x 9 x 64 at half density; fc: 16 x 2.
    assert model["macs"] == 8 * 9 * 64 + 16 * 8 * 9 * 64 // 2 + 32
    del model["macs"]
    assert model == {
        "id": "m1",
        "architecture": HALF.to_dict(),
        "kept": {
            "one": {"channels": 8, "density": 1.0},
            "two": {"channels": 16, "density": 0.5},
            "fc": {"channels": 2, "density": 1.0},
        },
        "kept_weights": 700,
        "file": "models/m1.jcw",
        "file_bytes": 5,
        "requested_latency_ms": 1.2,
        "predicted_latency_ms": 1.0,
        "measured_latency_ms": 1.1,
        "meets_budget": True,
        "search_error": 0.3,
        "distance": None,
        "test_error": 0.105,
    }
    assert report["baseline"]["macs"] == context.network.macs


class Balance(HTMLParser):
    """Fails on a tag that is closed out of order, and collects what the page loads from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.stack.append(tag)
        self.loads += [value or "" for key, value in attrs if key in ("src", "href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for key, value in attrs if key in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def test_page_is_one_well_formed_file(context: Context) -> None:
    ReportStage().run(context)
    page = context.path("report.html").read_text()
    parser = Balance()
    parser.feed(page)
    assert parser.stack == []
    # The rows as CSV lie in the page itself.
    assert [load.partition(",")[0] for load in parser.loads] == ["data:text/csv;charset=utf-8"]
    assert "CPU &lt;1&gt;" in page
    assert "It is 42." in page
    assert "2.00 times as fast" in re.sub("<[^>]+>", "", page)
    assert json.loads(context.path("report.json").read_text())["format"] == "jcw-report/1"


def test_models_without_a_measurement_are_reported_without(context: Context) -> None:
    write_json(
        context.path(records.MEASUREMENTS),
        {"format": "jcw-measurements/1", "device": DEVICE, "models": {"baseline": None, "m1": None}},
    )
    assert assemble(context)["models"][0]["measured_latency_ms"] is None
    ReportStage().run(context)


@pytest.mark.parametrize("name", [records.MEASUREMENTS, records.EVALUATION])
def test_a_model_that_is_missing_is_named(context: Context, name: str) -> None:
    document = json.loads(context.path(name).read_text())
    del document["models"]["m1"]
    write_json(context.path(name), document)
    with pytest.raises(FormatError, match="'m1' was not exported, measured or evaluated"):
        assemble(context)


@pytest.mark.parametrize("name", [records.EXPORTS, records.MEASUREMENTS, records.EVALUATION])
def test_a_file_without_its_models_is_named(context: Context, name: str) -> None:
    document = json.loads(context.path(name).read_text())
    del document["models"]
    write_json(context.path(name), document)
    with pytest.raises(FormatError, match=rf"{name}: models is None, expected an object"):
        assemble(context)


@pytest.mark.parametrize("name", [records.MEASUREMENTS, records.EVALUATION])
def test_a_model_whose_row_is_damaged_is_named(context: Context, name: str) -> None:
    document = json.loads(context.path(name).read_text())
    document["models"]["m1"] = [7]
    write_json(context.path(name), document)
    with pytest.raises(FormatError, match="'m1' was not exported, measured or evaluated"):
        assemble(context)


def test_show_prints_the_models(context: Context) -> None:
    ReportStage().run(context)
    result = CliRunner(env={"COLUMNS": "160"}).invoke(show, [str(context.directory.root)])
    assert result.exit_code == 0
    assert "m1" in result.output
    assert "10.50%" in result.output


def test_show_as_json_has_a_line_for_each_model(context: Context) -> None:
    ReportStage().run(context)
    shown = CliRunner().invoke(show, [str(context.directory.root), "--json"], catch_exceptions=False)
    rows = [json.loads(line) for line in shown.output.splitlines()]
    report = json.loads(context.path("report.json").read_text())
    models = [report["baseline"], *report["models"]]
    assert [row["id"] for row in rows] == [model["id"] for model in models]
    for row, model in zip(rows, models, strict=True):
        over = excess(model)
        assert row["meets_budget"] == (None if over is None else over == 0)
        for key in ("requested_latency_ms", "measured_latency_ms", "test_error", "kept_weights"):
            assert row[key] == model[key]


def test_show_names_a_report_that_is_damaged(context: Context) -> None:
    ReportStage().run(context)
    path = context.path("report.json")
    document = json.loads(path.read_text())
    del document["models"][0]["test_error"]
    write_json(path, document)
    with pytest.raises(FormatError, match=r"report\.json: not a report \(KeyError\('test_error'\)\)"):
        CliRunner().invoke(show, [str(context.directory.root)], catch_exceptions=False)


@pytest.mark.parametrize("word", ["[/x]", "[bold]", ":smile:", 17])
def test_show_prints_words_as_they_are(context: Context, word: object) -> None:
    ReportStage().run(context)
    path = context.path("report.json")
    document = json.loads(path.read_text())
    document["network"] = document["device"]["cpu"] = document["models"][0]["id"] = word
    write_json(path, document)
    result = CliRunner(env={"COLUMNS": "160"}).invoke(show, [str(context.directory.root)])
    assert result.exit_code == 0
    assert result.output.count(str(word)) == 3


@settings(max_examples=200)
@given(data=st.data())
def test_show_of_a_report_that_is_damaged_anywhere(context: Context, data: st.DataObject) -> None:
    write_run(context)
    report = assemble(context)
    misplace(data, report)
    context.path("report.json").write_text(json.dumps(report))
    result = CliRunner().invoke(show, [str(context.directory.root)])
    assert result.exit_code == 0 or isinstance(result.exception, FormatError)


@settings(max_examples=200)
@given(data=st.data())
def test_a_report_of_files_that_are_damaged_anywhere(context: Context, data: st.DataObject) -> None:
    """One error, or a page."""
    write_run(context)
    name = data.draw(
        st.sampled_from([records.MEASUREMENTS, records.EVALUATION, records.MODELS, records.FRONT])
    )
    document = json.loads(context.path(name).read_text())
    misplace(data, document)
    context.path(name).write_text(json.dumps(document))
    with suppress(JcwError):
        ReportStage().run(context)
        assert context.path("report.html").read_text().endswith("</html>\n")


@pytest.mark.parametrize(
    ("name", "place", "message"),
    [
        (records.MEASUREMENTS, ("models", "m1", "median_ms"), "'m1' has median_ms .*, expected numbers"),
        (records.EVALUATION, ("models", "m1", "test_error"), "'m1' has .*test_error .*, expected numbers"),
        (records.MEASUREMENTS, ("device", "cpu"), r"measurements\.json: its device is damaged"),
        (records.MEASUREMENTS, ("device", "core"), r"measurements\.json: its device is damaged"),
    ],
)
@pytest.mark.parametrize("value", [[1], 10**400, float("nan"), -1])
def test_latencies_errors_and_devices_of_impossible_values_are_refused(
    context: Context, name: str, place: tuple[str, ...], message: str, value: object
) -> None:
    where = document = json.loads(context.path(name).read_text())
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = value
    context.path(name).write_text(json.dumps(document))
    with pytest.raises(FormatError, match=message):
        assemble(context)


def shares(page: str, model: str) -> dict[str, list[tuple[str, float]]]:
    """The bars of one model on a page, by what they show: layer and share, in the order of the page."""
    chart = re.search(rf'<summary>{model}</summary><span class="drawing">(<svg.*?</svg>)</span>', page)
    assert chart is not None
    found: dict[str, list[tuple[str, float]]] = {"channels": [], "density": []}
    rects = ElementTree.fromstring(chart[1]).iter("rect")
    full = max(float(r.attrib["width"]) for r in rects)
    for rect in ElementTree.fromstring(chart[1]).iter("rect"):
        if (title := rect.find("title")) is not None:
            layer, kind, percent = re.fullmatch(r"(.*): (channels|density) (\d+)%", title.text or "").groups()
            assert float(rect.attrib["width"]) == pytest.approx(full * int(percent) / 100, abs=0.006 * full)
            found[kind].append((layer, int(percent) / 100))
    return found


def kept_of(network: Network, architecture: Architecture) -> dict[str, tuple[int, float, int]]:
    """Output channels, density and weight groups of each layer's tensor as it is exported."""
    weights = shrink_weights(network, architecture, random_weights(network, np.random.default_rng(0)))
    found = {}
    for node in network:
        if node.op in LAYERS:
            weight = weights[f"{node.name}.weight"]
            density = architecture.densities.get(node.name, 1.0)
            norms = group_norms(weight * density_mask(weight, density), 1)
            found[node.name] = (len(weight), float(np.mean(norms > 0)), norms.size)
    return found


@pytest.mark.parametrize("build", [resnet18, mobilenet_v2])
@pytest.mark.parametrize("seed", range(3))
def test_bars_are_those_of_the_exported_tensors(tmp_path: Path, build: Any, seed: int) -> None:
    """Of every layer, in the network's order, those of a coupled group included."""
    network = build(width=0.25, input_size=8, num_classes=2, in_channels=1)
    context = context_of(tmp_path, network)
    architecture = context.space.architecture(context.space.sample(1, np.random.default_rng(seed))[0])
    write_run(context, [chosen("m1", architecture)])
    ReportStage().run(context)
    found = shares(context.path("report.html").read_text(), "m1")
    expected = kept_of(network, architecture)
    full = {layer: network.shapes[layer][0] for layer in expected}
    assert (
        [layer for layer, _ in found["channels"]]
        == [layer for layer, _ in found["density"]]
        == list(expected)
    )
    for (layer, channels), (_, density) in zip(found["channels"], found["density"], strict=True):
        assert channels == pytest.approx(expected[layer][0] / full[layer], abs=0.006)
        # A tensor of few weight groups only comes near the density that the search chose.
        assert density == pytest.approx(expected[layer][1], abs=0.006 + 1 / expected[layer][2])


@settings(max_examples=100)
@given(networks() | flat_tails(), st.integers(0, 2**32 - 1))
def test_kept_channels_and_densities_are_those_of_the_architecture(network: Network, seed: int) -> None:
    space = SearchSpace.of(network, step=1)
    architecture = space.architecture(space.sample(1, np.random.default_rng(seed))[0])
    kept = kept_by_layer(network, architecture)
    assert {layer: k["channels"] for layer, k in kept.items()} == {
        layer: channels for layer, (channels, _, _) in kept_of(network, architecture).items()
    }
    assert {layer: k["density"] for layer, k in kept.items()} == {
        layer: architecture.densities.get(layer, 1.0) for layer in kept
    }


def test_the_page_says_what_stays_whole_and_why(tmp_path: Path) -> None:
    net = NetworkBuilder("grouped", (1, 8, 8))
    net.conv("first", 16, 3)
    net.conv("grouped", 24, 3, groups=4)
    net.conv("small", 4, 1)
    net.conv("last", 16, 1)
    net.depthwise("dw", 3)
    net.add("pool", "global_avg_pool")
    net.add("flat", "flatten")
    net.linear("fc", 2)
    context = context_of(tmp_path, net.build())
    write_run(context, [chosen("m1", Architecture({"last": 8}, {}))])
    ReportStage().run(context)
    page = html.unescape(re.sub("<[^>]+>", "\n", context.path("report.html").read_text()))
    for line in (
        "first: all channels, as it feeds the grouped convolution 'grouped', which makes 6 channels of every 4",
        "grouped: all channels, as it is a grouped convolution that makes 6 channels of every 4",
        "small: all channels, as it has 4 channels, one step of 4",
        "fc: all channels, as it makes the network's output",
        "first: all weights, as it is the first convolution",
        "grouped: all weights, as it is a grouped convolution",
        "dw: all weights, as it is depthwise",
    ):
        assert f"\n{line}\n" in page


@pytest.mark.parametrize(
    ("requested", "measured", "meets", "words"),
    [
        (1.0, 0.9, True, "met"),
        (1.0, 1.0, True, "met"),
        (0.5, 1.45, False, "missed by 190 %"),
        (1.0, 1.004, False, "missed by 0.4 %"),
        (1.0, 1.0000001, False, "missed by less than 0.1 %"),
        (1.0, None, None, "-"),
        (None, 1.0, None, "-"),
    ],
)
def test_a_model_that_misses_its_budget_is_marked(
    tmp_path: Path, requested: float | None, measured: float | None, meets: bool | None, words: str
) -> None:
    context = context_of(tmp_path)
    write_run(context, [chosen("m1", HALF, requested), chosen("m2", HALF, 5.0)], {"m1": measured})
    ReportStage().run(context)
    report = json.loads(context.path("report.json").read_text())
    assert {m["id"]: m["meets_budget"] for m in report["models"]} == {"m1": meets, "m2": True}
    assert report["baseline"]["meets_budget"] is None
    page = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", context.path("report.html").read_text()))
    share = words.removeprefix("missed by ")
    assert (f"1 of 2 models miss their budget as measured: m1 by {share}." in page) == (meets is False)
    assert (f" {share} over " in page) == (meets is False)
    shown = CliRunner(env={"COLUMNS": "160"}).invoke(show, [str(context.directory.root)])
    (line,) = [line for line in shown.output.splitlines() if "m1" in line]
    assert f" {words} " in line
