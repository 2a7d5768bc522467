"""``jcw --quiet``, ``jcw --verbose``, and the logs that programs get which use the packages."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner, Result
from test_pipeline import THREE, make

from jcw_core.cli.main import build
from jcw_core.cli.progress import TerminalProgress
from jcw_core.cli.text import echo, note
from jcw_core.errors import JcwError, JcwWarning
from jcw_core.hookspecs import hookimpl
from jcw_core.logs import logger
from jcw_core.protocols import Progress
from jcw_core.registry import Registry
from jcw_core.run.pipeline import StageEvent, run

pytestmark = pytest.mark.filterwarnings("ignore:a warning")


@click.command()
def talk() -> None:
    """Say all that a command may say."""
    with TerminalProgress() as progress:
        progress.stage(StageEvent("search", "started", 0, 1))
        progress.jcw_progress(Progress("search", "generation", 2, 2))
        progress.jcw_progress(Progress("search", "verdict", 0, 0, "a message"))
    note("note: a note")
    warnings.warn("a warning", JcwWarning, stacklevel=1)
    logger("jcw_core.somewhere").info("at work on %s", "\x1b[31mred\nred")
    logger("jcw_core.somewhere").debug("in detail")
    logger("elsewhere").info("of nobody's concern")
    echo("a result")


@click.command()
def fail() -> None:
    """End with an error."""
    raise JcwError("an error")


PLUGIN = SimpleNamespace(jcw_register_commands=hookimpl(lambda: [talk, fail]))


def jcw(*arguments: str) -> Result:
    # Until click 8.2 both streams were one unless it was told not to mix them, and since then it cannot be told.
    apart = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
    return CliRunner(**apart).invoke(build(Registry({"talk": PLUGIN}, installed=False)), arguments)


def test_quiet_prints_results_only() -> None:
    with warnings.catch_warnings(record=True, action="always") as caught:
        assert (jcw("talk").stdout, [str(w.message) for w in caught]) == ("a result\n", ["a warning"])
        done = jcw("-q", "talk")
    assert (done.stdout, done.stderr, done.exit_code) == ("a result\n", "", 0)
    assert len(caught) == 1


def test_quiet_keeps_errors() -> None:
    assert isinstance(jcw("--quiet", "fail").exception, JcwError)


def test_otherwise_progress_and_notes_are_said_and_no_log_is() -> None:
    said = jcw("talk").stderr
    for part in ("[1/1] search ...", "search: 2/2 generation", "a message", "note: a note"):
        assert part in said
    assert "at work" not in said


@pytest.mark.parametrize(("option", "detailed"), [("-v", False), ("--verbose", False), ("-vv", True)])
def test_verbose_shows_the_log_until_the_command_has_ended(option: str, detailed: bool) -> None:
    done = jcw(option, "talk")
    (line,) = [line for line in done.stderr.splitlines() if "at work" in line]
    assert line[8:] == " jcw_core.somewhere: at work on \\x1b[31mred red"
    assert ("in detail" in done.stderr) == detailed
    assert "concern" not in done.stderr
    assert done.stdout == "a result\n"
    assert not logging.getLogger("jcw_core").isEnabledFor(logging.INFO)
    assert "at work" not in jcw("talk").stderr


def test_quiet_and_verbose_exclude_each_other() -> None:
    done = jcw("-q", "-v", "talk")
    assert done.exit_code == 2
    assert "--quiet and --verbose exclude each other; give one of them" in done.stderr


def test_a_run_logs_its_stages(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "jcw_core")
    run(make(tmp_path), "second")
    run(make(tmp_path), "third")
    said: Sequence[str] = [r.getMessage() for r in caplog.records if r.name == "jcw_core.run.pipeline"]
    assert [" ".join(line.split()[:3]) for line in said] == [
        *("stage first begins,", "stage first ended", "stage second begins,", "stage second ended"),
        *("stage first was", "stage second was", "stage third begins,", "stage third ended"),
    ]
    assert said[3].endswith("wrote second.txt, second-extra.txt")


@pytest.mark.parametrize(
    "module",
    ["jcw_core.run.pipeline", "jcw_latency.profiling.layers", "jcw_search.generations", "jcw_kernels.stages"],
)
def test_nothing_is_printed_where_nobody_listens(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(module.partition(".")[0])
    importlib.import_module(module)
    package = logging.getLogger(module.partition(".")[0])
    assert any(isinstance(handler, logging.NullHandler) for handler in package.handlers)
    assert package.propagate


def test_the_log_of_a_library_reaches_no_terminal(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run(make(tmp_path, THREE), "third")
    logger("jcw_core.x").warning("even this")
    assert capfd.readouterr() == ("", "")
