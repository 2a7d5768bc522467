"""The report puts together what the stages wrote, and the page shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from damage import misplace
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from jcw_core.cli.commands import show
from jcw_core.errors import FormatError, JcwError
from jcw_core.files import write_json
from jcw_core.hookspecs import hookimpl
from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.options import option
from jcw_core.protocols import DeviceInfo
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.report.stages import ReportStage, assemble
from jcw_core.run import records
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory

DEVICE = {"name": "toy", "cpu": "CPU <1>", "isa": "scalar", "threads": 1, "versions": {}}
HALF = Architecture({"one": 8}, {"two": 0.5})


class Images:
    classes = ("a", "b")
    mean = std = (0.5,)
    image_shape = (1, 8, 8)
    labels = np.arange(20, dtype=np.int64) % 2

    def __len__(self) -> int:
        return 20

    def images(self, indices: NDArray[np.intp]) -> NDArray[np.uint8]:
        return np.zeros((len(indices), 1, 8, 8), dtype=np.uint8)


class Plugin:
    @dataclass(frozen=True)
    class Options:
        size: int = option(20)

    name = "toy"
    options = Options

    def open(self, split: str, options: Any) -> Images:
        return Images()

    @hookimpl
    def jcw_register_datasets(self) -> Sequence[Any]:
        return [self]

    @hookimpl
    def jcw_register_report(self) -> Sequence[Any]:
        return [Section()]


class Section:
    name, title, order = "extra", "An extra", 1

    def data(self, context: Context) -> Mapping[str, Any]:
        return {"answer": 42}

    def html(self, data: Mapping[str, Any]) -> str:
        return f"<p>It is {data['answer']}.</p>"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    net = NetworkBuilder("toy", (1, 8, 8))
    net.conv("one", 16, 3)
    net.conv("two", 16, 3)
    net.add("pool", "global_avg_pool")
    net.add("flat", "flatten")
    net.linear("fc", 2)
    (tmp_path / "toy.json").write_text(net.build().to_json())
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[network]\nfile = "toy.json"\n[data]\nname = "toy"\nholdout = 4\n')
    registry = Registry({"toy": Plugin()}, installed=False)
    made = Context(load_recipe(recipe, registry), registry, RunDirectory(tmp_path / "run"))
    write_run(made)
    return made


def write_run(context: Context) -> None:
    """What the stages before the report leave behind."""
    candidate = records.Candidate(HALF, {"latency": 1.0, "error": 0.3})
    records.Front("toy", {"latency": "ms", "error": ""}, [candidate]).write(context.path(records.FRONT))
    models = [
        records.ChosenModel(records.BASELINE, Architecture({}, {}), None, 2.0, None, 2480, "models/b"),
        records.ChosenModel("m1", HALF, 1.2, 1.0, 0.3, 700, "models/m1"),
    ]
    records.ChosenModel.write_all(context.path(records.MODELS), models)
    files = {m.id: {"jcw": f"models/{m.id}.jcw"} for m in models}
    for name in files.values():
        context.path(name["jcw"]).write_bytes(b"12345")
    records.write_exports(context.path(records.EXPORTS), files)
    times = {"baseline": records.ModelTimes(2.2, 2.0, 2.4, 20), "m1": records.ModelTimes(1.1, 1.0, 1.2, 20)}
    records.Measurements(DeviceInfo(**DEVICE), times).write(context.path(records.MEASUREMENTS))
    errors = {"baseline": records.ModelScore(0.1, 200), "m1": records.ModelScore(0.105, 200)}
    records.Evaluation(errors).write(context.path(records.EVALUATION))


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
        "kept_weights": 700,
        "file": "models/m1.jcw",
        "file_bytes": 5,
        "requested_latency_ms": 1.2,
        "predicted_latency_ms": 1.0,
        "measured_latency_ms": 1.1,
        "search_error": 0.3,
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
    assert parser.loads == []
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
def test_a_measurement_that_means_nothing(
    context: Context, name: str, place: tuple[str, ...], message: str, value: object
) -> None:
    where = document = json.loads(context.path(name).read_text())
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = value
    context.path(name).write_text(json.dumps(document))
    with pytest.raises(FormatError, match=message):
        assemble(context)
