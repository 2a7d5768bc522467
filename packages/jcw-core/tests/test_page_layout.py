"""How a browser lays the report out: nothing is cut off, on screens and on paper."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium_pages import visit, with_script
from programs import needs
from report_samples import chosen, context_of, write_run

from jcw_core.backbones.mobilenet_v2 import mobilenet_v2
from jcw_core.report.charts import STYLE, Series, bars, histogram, plot
from jcw_core.report.stages import ReportStage

pytestmark = needs("chromium")

PAPER = 718
"""Pixels between the margins of A4."""

PROBE = """
for (const details of document.querySelectorAll("details")) details.open = true;
const found = {window: innerWidth, page: document.documentElement.scrollWidth, texts: 0, outside: [], tables: []};
for (const chart of document.querySelectorAll("svg")) {
  const frame = chart.getBoundingClientRect();
  for (const text of chart.querySelectorAll("text")) {
    const box = text.getBoundingClientRect();
    found.texts += 1;
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
      found.outside.push(text.textContent);
  }
}
for (const area of document.querySelectorAll(".scroll")) {
  const table = area.querySelector("table");
  found.tables.push({hidden: area.scrollWidth - area.clientWidth, right: table.getBoundingClientRect().right});
}
"""


CONTRAST = """
const rgb = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
const luminance = text => rgb(text).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const behind = getComputedStyle(document.body).backgroundColor, seen = {page: behind, texts: 0, faint: []};
for (const details of document.querySelectorAll("details")) details.open = true;
for (const button of document.querySelectorAll(".copy")) button.hidden = false;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const owner = walker.currentNode.parentElement, style = getComputedStyle(owner);
  if (!walker.currentNode.data.trim() || owner.closest("script, title, style")) continue;
  const colour = owner.closest("svg") ? style.fill : style.color, pair = [luminance(colour), luminance(behind)].sort((a, b) => a - b);
  seen.texts += 1;
  if ((pair[1] + 0.05) / (pair[0] + 0.05) < 4.5) seen.faint.push([walker.currentNode.data, colour]);
}
const found = seen;
"""

SORT = """
const table = document.querySelector("table.sortable"), head = table.tHead.rows[0].cells[3], first = [];
const note = () => first.push([head.getAttribute("aria-sort"), [...table.tBodies[0].rows].map(row => row.cells[3].dataset.value)]);
for (const _ of [1, 2]) { head.querySelector("button").click(); note(); }
const copy = document.querySelector(".copy");
copy.click();
const found = {sorted: first, hidden: copy.hidden, selected: getSelection().toString()};
"""


def laid_out(page: str, width: int, folder: Path, probe: str = PROBE) -> dict[str, Any]:
    """What ``found`` is after ``probe`` on a page in a window of so many pixels."""
    path = folder / f"page{width}.html"
    path.write_text(with_script(page, probe), encoding="utf-8")
    found: dict[str, Any] = visit(path.as_uri(), folder, f"--window-size={width},2000").found
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report with long names, wide numbers and models that miss their budgets."""
    network = mobilenet_v2(width=1.0, input_size=8, num_classes=2, in_channels=1)
    context = context_of(tmp_path_factory.mktemp("run"), network)
    rows = context.space.sample(4, np.random.default_rng(0))
    models = [
        chosen(f"model-{index}-of-a-long-name", context.space.architecture(row), 1234.5)
        for index, row in enumerate(rows)
    ]
    write_run(context, models, {model.id: 2345.678 + 10000 * i for i, model in enumerate(models)})
    ReportStage().run(context)
    return context.path("report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [400, 1000, 1600])
def test_nothing_is_cut_off_on_a_screen(page: str, width: int, tmp_path: Path) -> None:
    found = laid_out(page, width, tmp_path)
    assert found["texts"] > 100
    assert found["outside"] == []
    assert found["page"] <= found["window"]
    (table,) = found["tables"]
    # A narrow screen scrolls the table by itself; a wide one shows it all.
    assert table["hidden"] == 0 or width < 1600


def test_nothing_is_cut_off_on_paper(page: str, tmp_path: Path) -> None:
    assert "@media print" in page
    found = laid_out(page.replace("@media print", "@media screen"), PAPER, tmp_path)
    assert found["outside"] == []
    assert found["page"] <= found["window"] == PAPER
    assert all(table["right"] <= PAPER for table in found["tables"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_texts_stand_out_from_the_page(page: str, scheme: str, tmp_path: Path) -> None:
    """A contrast of 4.5 at least, as WCAG 2 asks of small letters."""
    assert "prefers-color-scheme: dark" in page
    wanted = "not all" if scheme == "light" else "all"
    found = laid_out(page.replace("(prefers-color-scheme: dark)", wanted), 1000, tmp_path, CONTRAST)
    assert found["page"] == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 24, 28)")
    assert found["texts"] > 100
    assert found["faint"] == []


def test_a_click_sorts_the_table_or_copies_a_command(page: str, tmp_path: Path) -> None:
    found = laid_out(page, 1000, tmp_path, SORT)
    (up, rising), (down, falling) = found["sorted"]
    assert (up, down) == ("ascending", "descending")
    assert [float(value) for value in rising] == sorted(map(float, rising))
    assert falling == rising[::-1]
    assert not found["hidden"]
    assert found["selected"].startswith("jcw predict-image models/")


ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz0123456789._/",
    "mwMW@%",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "iljt.",
    "漢字層畳",
    "éüñøЖДШщ",
)


def words(rng: random.Random, longest: int) -> str:
    return "".join(rng.choices(rng.choice(ALPHABETS), k=rng.randint(1, longest)))


def charts(rng: random.Random) -> list[str]:
    """Plots of random names and magnitudes."""
    scale = 10 ** rng.uniform(-9, 9)
    points = [
        (rng.uniform(-1, 1) * scale, rng.uniform(0, 1) * scale * 10 ** rng.uniform(-3, 3)) for _ in range(5)
    ]
    series = [Series(words(rng, 40), points, "both") for _ in range(rng.randint(1, 5))]
    layers = [words(rng, 120) for _ in range(4)]
    shares = {words(rng, 40): [rng.random() for _ in layers] for _ in range(rng.randint(1, 4))}
    samples = {words(rng, 40): [x for x, _ in points] for _ in range(rng.randint(1, 4))}
    return [
        plot(series, x_label=words(rng, 99), y_label=words(rng, 60), diagonal=rng.random() < 0.3),
        histogram(samples, x_label=words(rng, 99)),
        bars(layers, shares),
    ]


def test_labels_of_any_letters_lie_inside_their_plots(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    drawn = "".join(chart for _ in range(60) for chart in charts(rng))
    page = f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style><body>{drawn}</body>'
    found = laid_out(page, 1000, tmp_path)
    assert found["texts"] > 2000
    assert found["outside"] == [], f"seed {seed}"
