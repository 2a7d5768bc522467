"""Pages say nothing on the browser's console, and every picture, bar and button has words for those who do not see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from chromium_pages import NAMES, require_names, visit, with_script
from programs import needs
from report_samples import HALF, chosen, context_of, write_run
from watched import finish, serving, stages, works

from jcw_core.report.charts import Series, bars, histogram, plot
from jcw_core.report.stages import ReportStage
from jcw_core.run.standing import STANDING
from jcw_core.watch.pages import Pages
from jcw_core.watch.server import Answer

pytestmark = needs("chromium")

CLICKS = """
for (const part of document.querySelectorAll("button, summary")) part.click();
const found = document.querySelectorAll("button").length;
"""


@dataclass(frozen=True, slots=True)
class Scripted:
    """Pages at whose end a script runs."""

    pages: Pages
    script: str

    @property
    def by_path(self) -> dict[str, Callable[[], Answer]]:
        return {"/": self.whole, "/now": self.pages.now}

    def whole(self) -> Answer:
        status, page = self.pages.whole()
        return Answer(status, with_script(page.decode(), self.script).encode())


@pytest.fixture
def report(tmp_path: Path) -> str:
    context = context_of(tmp_path)
    write_run(context, [chosen("m1", HALF, 0.7), chosen("m2", HALF)])
    ReportStage().run(context)
    return context.path("report.html").read_text(encoding="utf-8")


@pytest.fixture(params=["works", "found", "interrupted"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Pages:
    """A run that is watched, in each of its states."""
    root, pictures = tmp_path / "run", plot([Series("s", [(1, 2), (2, 1)])], x_label="x", y_label="y")
    works(root)
    if request.param == "found":
        finish(root, "search", "retrain", "measure", "evaluate")
    if request.param == "interrupted":
        (root / STANDING).unlink()
    return Pages(root, stages(search=pictures))


def opened(page: str, folder: Path, script: str) -> tuple[list[str], object]:
    path = folder / "page.html"
    path.write_text(with_script(page, script), encoding="utf-8")
    found = visit(path.as_uri(), folder)
    return found.console, found.found


def test_the_report_leaves_the_console_empty(report: str, tmp_path: Path) -> None:
    console, buttons = opened(report, tmp_path, CLICKS)
    assert console == []
    assert isinstance(buttons, int)
    assert buttons > 5


@pytest.mark.parametrize("fault", ["<script>lost()</script>", "<script>Promise.reject(1)</script>"])
def test_what_is_wrong_on_a_page_would_be_seen(report: str, tmp_path: Path, fault: str) -> None:
    console, _ = opened(report.replace("</body>", f"{fault}</body>"), tmp_path, CLICKS)
    assert len(console) == 1


def test_every_part_of_the_report_has_a_name(report: str, tmp_path: Path) -> None:
    _, found = opened(report, tmp_path, NAMES)
    assert isinstance(found, list)
    assert sum(role == "image" for _, role, _ in found) >= 3
    assert sum(role == "button" for _, role, _ in found) > 5
    require_names(found)


def test_every_chart_has_a_name_of_its_own(tmp_path: Path) -> None:
    charts = [
        plot([Series("s", [(1, 2)])], x_label="x", y_label="y"),
        histogram({"sample": [1.0, 2.0]}, x_label="milliseconds"),
        bars(["layer"], {"share": [0.5]}),
    ]
    _, found = opened(f"<!doctype html><body>{''.join(charts)}</body>", tmp_path, NAMES)
    assert isinstance(found, list)
    assert len({name for _, _, name in found}) == len(charts)
    require_names(found)
    _, found = opened("<!doctype html><body><svg></svg></body>", tmp_path, NAMES)
    assert isinstance(found, list)
    with pytest.raises(AssertionError):
        require_names(found)


def test_the_page_of_a_run_that_goes_on_has_names_and_an_empty_console(
    watched: Pages, tmp_path: Path
) -> None:
    with serving(Scripted(watched, NAMES)) as server:
        found = visit(server.url, tmp_path, "--virtual-time-budget=5000")
    assert found.console == []
    roles = {role for _, role, _ in found.found}
    is_at_work = (watched.root / STANDING).exists()
    assert ("progressbar" in roles) == is_at_work
    assert "image" in roles
    require_names(found.found)
