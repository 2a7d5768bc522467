"""What a browser makes of the page of ``jcw watch``: it asks again, stays where it was, and comes to the report."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from chromium_pages import visit
from programs import needs
from watched import NOW, finish, serving, stages, works

from jcw_core.watch.pages import Pages
from jcw_core.watch.server import Answer

pytestmark = needs("chromium")

SCROLLED = """<script>
scrollTo(0, 700);
setTimeout(() => document.body.insertAdjacentHTML("beforeend", `<pre>at ${scrollY}</pre>`), 5000);
</script></body>"""
TALL = '<div style="height: 5000px"></div>'


@dataclass(frozen=True, slots=True)
class Changing:
    """Pages of a run that goes on whenever it is asked what has changed."""

    pages: Pages
    change: Callable[[], None]
    script: str = ""

    @property
    def by_path(self) -> dict[str, Callable[[], Answer]]:
        return {"/": self.whole, "/now": self.now}

    def whole(self) -> Answer:
        status, html = self.pages.whole()
        return Answer(status, html.replace(b"</body>", self.script.encode() or b"</body>"))

    def now(self) -> Answer:
        self.change()
        return self.pages.now()


def dumped(pages: Changing, folder: Path) -> str:
    """The page as it stands after some seconds."""
    with serving(pages) as server:
        flags = "--window-size=1000,800", "--virtual-time-budget=7000"
        return visit(server.url, folder, *flags).dom


@pytest.fixture
def root(tmp_path: Path) -> Path:
    works(tmp_path / "run")
    return tmp_path / "run"


def test_the_page_follows_the_run_and_stays_where_it_was(root: Path, tmp_path: Path) -> None:
    later = replace(NOW, done=7)
    found = dumped(Changing(Pages(root, stages(search=TALL)), lambda: later.write(root), SCROLLED), tmp_path)
    assert "generation 7 of 12" in found
    assert "generation 3 of 12" not in found
    assert "<pre>at 700</pre>" in found
    assert re.search(r'<p id="lost"[^>]* hidden', found)


def test_the_page_becomes_the_report(root: Path, tmp_path: Path) -> None:
    ended = ("search", "retrain", "measure", "evaluate", "report")
    found = dumped(Changing(Pages(root, stages()), lambda: finish(root, *ended)), tmp_path)
    assert "<h1>toy on toy</h1>" in found
    assert "How it was made" in found


def test_a_server_that_has_ended_is_told_of(root: Path, tmp_path: Path) -> None:
    def fails() -> None:
        raise OSError("gone")

    found = dumped(Changing(Pages(root, stages()), fails), tmp_path)
    assert "generation 3 of 12" in found
    assert not re.search(r'<p id="lost"[^>]* hidden', found)
