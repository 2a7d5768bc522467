"""What the page of a report says: its first sentences, its plot, table, commands and how it came about."""

from __future__ import annotations

import csv
import html
import io
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from report_samples import HALF, chosen, context_of, write_run

from jcw_core.report import facts, models
from jcw_core.report.charts import Series, plot
from jcw_core.report.front import front
from jcw_core.report.headline import headline
from jcw_core.report.stages import ReportStage, assemble
from jcw_core.run.origin import remember_recipe, settings_of

DENSE = {"id": "baseline", "measured_latency_ms": 10.0, "test_error": 0.10}


def report_of(*rows: tuple[str, float | None, float]) -> dict[str, Any]:
    """A report of models: identifier, milliseconds, error."""
    found = [{"id": name, "measured_latency_ms": ms, "test_error": error} for name, ms, error in rows]
    return {"baseline": DENSE, "models": found}


def said(report: dict[str, Any]) -> str:
    return re.sub("<[^>]+>", " ", headline(report))


def test_the_headline_names_the_fastest_of_the_good_models_and_the_fastest_of_all() -> None:
    text = said(report_of(("slow", 9.0, 0.09), ("good", 5.0, 0.109), ("fast", 2.0, 0.14)))
    first, second = text.split("The fastest of all is")
    assert "good" in first
    assert "2.00 times" in first
    assert "0.90 points more than its " in first
    assert "fast" in second
    assert "5.00 times" in second
    assert "4.00 points more than its " in second
    assert "slow" not in text


def test_the_headline_says_so_where_no_model_is_good() -> None:
    text = said(report_of(("least", 5.0, 0.13), ("fast", 2.0, 0.2)))
    assert text.startswith(" No model is within one point of the dense network's error.")
    assert text.index("least :") < text.index("The fastest of all is") < text.index("fast :")


def test_the_headline_names_a_model_once_and_none_that_was_not_measured() -> None:
    assert "of all" not in said(report_of(("m1", 5.0, 0.1), ("m2", None, 0.1)))
    assert headline(report_of(("m2", None, 0.1))) == ""


def texts(chart: str) -> list[str]:
    return re.findall(r'<text class="name"[^>]*>(.*?)</text>', chart)


def test_points_have_names_beside_them_that_do_not_cover_each_other() -> None:
    points = [(1.0, 1.0), (1.0, 1.0), (2.0, 3.0)]
    chart = plot(
        [Series("s", points, names=["<a>", "x" * 200, "c"])], x_label="x", y_label="y", from_zero=True
    )
    assert texts(chart) == ["&lt;a&gt;", "c"]
    many = plot([Series("s", [(1.0, 1.0)] * 30, names=["name"] * 30)], x_label="x", y_label="y")
    assert 1 <= len(texts(many)) <= 8


def test_limits_widen_the_axis_and_are_drawn() -> None:
    chart = plot(
        [Series("s", [(1, 1), (2, 2)])], x_label="x", y_label="y", limits=("budgets", [8.0, float("nan")])
    )
    assert chart.count('class="limit"') == 1
    assert ">8</text>" in chart
    assert ">budgets</text>" in chart


def test_what_is_largest_does_not_touch_the_edge_of_axes_from_zero() -> None:
    chart = plot([Series("s", [(1, 1), (5, 20)])], x_label="x", y_label="y", from_zero=True)
    top = float(re.search(r'class="axis"[^>]* d="M[\d.]+ ([\d.]+)', chart)[1])  # type: ignore[index]
    assert min(float(y) for y in re.findall(r'cy="([\d.]+)"', chart)) > top + 4


@pytest.fixture
def page(tmp_path: Path) -> str:
    context = context_of(tmp_path)
    write_run(context, [chosen("m1", HALF, 0.7), chosen("m2", HALF)])
    ReportStage().run(context)
    return context.path("report.html").read_text(encoding="utf-8")


def test_the_plot_names_models_and_budgets(page: str) -> None:
    assert {"dense", "m1"} <= set(texts(page))
    assert page.count('class="limit"') == 2
    assert re.search(r'text-anchor="end">0</text>', page[page.index("Accuracy against") :])


def test_the_plot_has_what_uniform_pruning_gives(page: str) -> None:
    drawn = page[page.index("Accuracy against") : page.index("<h2>Models")]
    assert ">one share of both (predicted)</text>" in drawn
    assert drawn.count('class="line s6 dashed"') == 1
    assert "one share of both: 0.800 ms, error 41.00 %, predicted</title>" in drawn
    assert "No line for one share of channels and none for one density: all such networks are slower" in drawn


def test_a_report_of_an_older_version_has_no_uniform_lines(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    write_run(context)
    report = assemble(context)
    assert "dashed" in front(report)
    del report["uniform"]
    assert "dashed" not in front(report)
    assert "No line" not in front(report)


def test_the_csv_has_the_rows_of_the_table(page: str) -> None:
    link = re.search(r'href="data:text/csv;charset=utf-8,([^"]*)"', page)
    assert link is not None
    rows = list(csv.DictReader(io.StringIO(unquote(link[1]))))
    assert [row["id"] for row in rows] == ["baseline", "m1", "m2"]
    assert (rows[1]["requested_latency_ms"], rows[0]["requested_latency_ms"]) == ("0.7", "")


def test_each_model_has_the_command_that_runs_it(page: str) -> None:
    codes = [html.unescape(code) for code in re.findall(r"<dd><code>(.*?)</code>", page)]
    assert codes == [f"jcw predict-image models/{name}.jcw photo.jpg" for name in ("m1", "m2", "baseline")]


@pytest.mark.parametrize(
    ("file", "error", "words"),
    [
        ("a b/<i>.jcw", 0.1, "jcw predict-image 'a b/<i>.jcw' photo.jpg"),
        ("-x.jcw", 0.1, "jcw predict-image ./-x.jcw photo.jpg"),
        ("m.jcw", None, "jcw kernels profile m.jcw"),
    ],
)
def test_commands_are_quoted_for_shells_and_pages(file: str, error: float | None, words: str) -> None:
    row = {"id": "m", "file": file, "test_error": error}
    assert models.command(row) == words
    shown = models.commands({"models": [row], "baseline": {**row, "file": "b.safetensors"}})
    assert shown.count("<dt>") == 1
    assert html.escape(words) in shown


def test_a_report_says_how_it_came_about(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    write_run(context)
    report = assemble(context)
    made = report["made"]
    assert (made["recipe"], made["seed"]) == ("recipe.toml", 0)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", made["date"])
    assert {"Python", "jcw-core"} <= made["versions"].keys()
    made["recipe"] = "<script>"
    assert made["text"] == (tmp_path / "recipe.toml").read_text()
    assert made["set"] == []
    report["device"]["versions"] = {"engine": "1 & 2"}
    table = facts.table(report)
    assert "&lt;script&gt;" in table
    assert "engine 1 &amp; 2" in table
    assert made["date"][:10] in table


def test_a_report_holds_its_recipe_and_what_was_set_besides(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    write_run(context)
    remember_recipe(context.directory, context.recipe.path, ["run.seed=<3>"])
    report = assemble(context)
    folded = facts.recipe(report)
    assert "holdout = 4" in html.unescape(folded)
    assert "<code>run.seed=&lt;3&gt;</code>" in folded
    assert "<details open" not in folded
    report["made"] |= {"text": "</pre><script>", "set": []}
    assert "<script>" not in facts.recipe(report)
    assert "Set besides" not in facts.recipe(report)
    del report["made"]["text"], report["made"]["set"]
    assert facts.recipe(report) == ""


@pytest.mark.parametrize("content", ["", "[]", '{"format": "jcw-recipe/1", "set": 3}'])
def test_a_damaged_note_of_settings_is_left_out(tmp_path: Path, content: str) -> None:
    (tmp_path / "recipe.json").write_text(content)
    assert settings_of(tmp_path) == []
