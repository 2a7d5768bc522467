"""What reaches a terminal: no escape of a file, no traceback, whatever the names are."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from jcw_core.cli import main as cli
from jcw_core.cli.progress import TerminalProgress
from jcw_core.cli.text import echo, print_table
from jcw_core.errors import JcwError
from jcw_core.names import is_path_inside, is_plain_name, printable
from jcw_core.protocols import Progress
from jcw_core.report import stages as report_stages
from jcw_core.run.pipeline import StageEvent

ODD = "\x1b]0;title\x07 \x1b[31mred \x9b2J \x00 \r \udcff\ud800 \u202eback \x7f"
NOT_SHOWN = {c for c in ODD if not c.isprintable()}


def test_only_what_is_seen_is_printed() -> None:
    @given(text=st.text(st.characters(codec=None)))
    def check(text: str) -> None:
        shown = printable(text)
        shown.encode()
        assert all(c == "\n" or c.isprintable() or c.isspace() for c in shown)
        assert not {"\x1b", "\r", "\x9b", "\t", "\x0b", "\x1c", "\x85", "\u2028"} & set(shown)
        if text.isprintable():
            assert shown == text

    check()


@pytest.mark.parametrize("terminal", [True, False])
def test_escapes_of_names_do_not_reach_the_terminal(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    table = Table(title=ODD)
    table.add_column(ODD)
    table.add_row(ODD + "ä")
    print_table(table)
    echo(ODD)
    echo(ODD, err=True)
    out = "".join(capsys.readouterr())
    assert "ä" in out
    assert out.count("\\x1b[31mred") == 5
    # Of rich's own there are styles, but none of this colour.
    assert not (NOT_SHOWN - {"\x1b"}) & set(out)
    assert "\x1b]" not in out
    assert "\x1b[31m" not in out
    if not terminal:
        assert "\x1b" not in out


def test_nothing_is_wrapped_or_cut_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    words = " ".join(f"word{number}" for number in range(60))
    table = Table(words, words)
    table.add_row(words, "x" * 300)
    print_table(table)
    with TerminalProgress() as progress:
        progress.stage(StageEvent("search", "noted", 0, 1, words))
        progress.jcw_progress(Progress("search", "generation", 2, 2, words))
    out, err = capsys.readouterr()
    assert out.count(words) == 3
    assert "x" * 300 in out
    assert err.count(words) == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_escapes_of_names_do_not_reach_progress(terminal: bool) -> None:
    written = StringIO()
    with TerminalProgress(Console(file=written, width=300, force_terminal=terminal)) as progress:
        progress.stage(StageEvent(ODD, "started", 0, 1))
        progress.jcw_progress(Progress(ODD, ODD, 2, 2, ODD))
        progress.stage(StageEvent(ODD, "ended", 0, 1))
    out = written.getvalue()
    assert out.count("\\x1b[31mred") >= 5
    # Rich moves the cursor of a terminal itself.
    assert not (NOT_SHOWN - set("\x1b\r" if terminal else "")) & set(out)
    assert "\x1b]" not in out
    assert "\x1b[31mred" not in out


def test_errors_are_shown_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error in (JcwError(ODD), OSError(2, ODD, ODD), click.UsageError(ODD), MemoryError(ODD)):

        def fail(error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(cli, "build", lambda registry, fail=fail: click.Command("jcw", callback=fail))
        monkeypatch.setattr(sys, "argv", ["jcw"])
        assert cli._run() == 2
        shown = capsys.readouterr().err
        # Click itself takes colours out.
        assert ("red" if isinstance(error, click.UsageError) else "\\x1b[31mred") + " \\x9b2J" in shown
        assert not NOT_SHOWN & set(shown)


INTERRUPTING = """
import os, signal, sys
state = {"left": None}
def hook(event, arguments):
    if event != "import":
        return
    if arguments[0] == "jcw_core.cli.main":
        state["left"] = int(os.environ["AFTER"])
    elif state["left"] is not None:
        state["left"] -= 1
        if state["left"] == 0:
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
"""


@pytest.mark.parametrize("after", random.Random(0).sample(range(1, 150), 4))
def test_an_interrupt_while_modules_are_imported(tmp_path: Path, after: int) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "AFTER": str(after)}
    done = subprocess.run(
        [sys.executable, "-m", "jcw_core", "plugins"], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (130, "jcw: interrupted\n")


PLAIN = ("m1", "model.jcw", "a b", "ä", "x..y", "-", "~")
CLIMBING = (
    "..",
    ".",
    "",
    "../x",
    "a/../b",
    "/x",
    "a//b",
    "a/",
    "./a",
    ".hidden",
    "a/.b",
    "a\\b",
    "a\0",
    "\udcff",
    "\x1b",
)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_names(name: str) -> None:
    assert is_plain_name(name)
    assert is_path_inside(f"models/{name}/{name}")


@pytest.mark.parametrize("name", [*CLIMBING, None, 3, ["a"], b"a"])
def test_names_that_are_not_plain(name: object) -> None:
    assert not is_plain_name(name)
    assert not is_path_inside(name)
    assert not is_path_inside(f"models/{name}") or name in (None, 3) or not isinstance(name, str)


@given(parts=st.lists(st.sampled_from([*PLAIN, *CLIMBING]), max_size=4))
def test_a_path_inside_leads_nowhere_else(parts: list[str]) -> None:
    path = "/".join(parts)
    root = Path("/runs/one")
    if is_path_inside(path):
        assert root in Path(os.path.normpath(root / path)).parents
    if parts and all(part in PLAIN for part in parts):
        assert is_path_inside(path)


def test_a_file_of_a_run_with_escapes_is_shown_without(tmp_path: Path) -> None:
    from jcw_core.cli.commands import show
    from jcw_core.files import write_json

    row = {"id": ODD, "test_error": 0.1, "kept_weights": 3}
    row |= {f"{kind}_latency_ms": 1.0 for kind in ("requested", "predicted", "measured")}
    report = {"format": "jcw-report/1", "network": ODD, "dataset": ODD, "device": {"cpu": ODD}}
    write_json(tmp_path / "report.json", report | {"baseline": row, "models": [row]})
    done = CliRunner().invoke(show, [str(tmp_path)], catch_exceptions=False)
    assert not NOT_SHOWN & set(done.output)


def test_names_that_are_no_characters_reach_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_stages, "assemble", lambda run: {"device": ODD})
    monkeypatch.setattr("jcw_core.report.page.render", lambda report, sections: f"ä {report['device']}")
    run: Any = SimpleNamespace(
        path=lambda name: tmp_path / name, registry=SimpleNamespace(report_sections={})
    )
    report_stages.ReportStage().run(run)
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("ä ")
    assert "\\udcff\\ud800" in (tmp_path / "report.html").read_text(encoding="utf-8")
