"""What is said of all that is left of a run: by estimates before a stage begins, by its own pace afterwards."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from test_progress import Clock
from test_time_limit import Waiting, Working, opened

from jcw_core.cli.progress import TerminalProgress
from jcw_core.protocols import Progress, Run
from jcw_core.run.ahead import Ahead, ahead
from jcw_core.run.context import Context
from jcw_core.run.pipeline import StageEvent, plan, run
from jcw_core.run.standing import Standing, telling
from jcw_core.run.time_left import Left, TimeLeft
from jcw_core.shown import roughly


def opened_here(folder: Path, ends: float | None = 25.0) -> Context:
    (folder / "none.json").write_text("{}")
    return opened(folder, "100 s", ends=ends, epochs=3, population=10)


def events(context: Context) -> dict[str, Ahead]:
    found: list[StageEvent] = []
    run(context, "last", found.append)
    return {event.stage: event.ahead for event in found if event.state == "started" and event.ahead}


def test_estimates_of_stages_add_up_and_what_is_not_known_is_said(tmp_path: Path) -> None:
    context = opened_here(tmp_path)
    found = ahead(context, plan(context, "last"))
    assert found == {
        "work": Ahead(30, True, 25, False),
        "wait": Ahead(25, False, 0, False),
        "last": Ahead(None, False, 0, True),
    }
    assert not (tmp_path / "run").exists()  # which says where a run was interrupted


def test_what_took_its_time_before_takes_about_as_long_again(tmp_path: Path) -> None:
    context = opened_here(tmp_path, ends=None)
    assert events(context)["work"] == Ahead(30, True, 0, False)
    context.directory.finish("wait", "of another recipe", (), 12.0)
    found = events(context)
    assert found["wait"].own == 12
    assert found["wait"].is_whole
    assert "work" not in found


def test_what_an_interrupted_attempt_took_is_not_left(tmp_path: Path) -> None:
    context = opened_here(tmp_path)
    (context.scratch("work") / "seconds").write_text("10.5")
    assert ahead(context, plan(context, "last"))["work"].own == 19.5


def test_an_estimate_that_fails_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Working, run: Run) -> float:
        raise OSError("torch is not there")

    monkeypatch.setattr(Working, "seconds", fails)
    monkeypatch.setattr(Waiting, "ends_after", fails)
    found = events(opened_here(tmp_path))
    assert list(found) == ["work", "wait", "last"]
    assert found["work"] == Ahead(None, True, 0, False)


def begun(expected: Ahead | None) -> TimeLeft:
    left = TimeLeft(0.0)
    left.stage(StageEvent("search", "started", 0, 2, ahead=expected), 0.0)
    return left


def test_a_stage_that_counts_all_of_its_work_is_believed_over_its_estimate() -> None:
    left = begun(Ahead(100, True, 60, True))
    assert left.left(10.0) == Left(150, True)
    for done in range(1, 6):
        left.report(Progress("search", "generation", done, 10), 2.0 * done)
    assert left.left(10.0) == Left(70, True)
    assert left.left(12.0) == Left(68, True)
    left.report(Progress("search", "generation", 10, 10), 20.0)
    assert left.left(20.0) == Left(60, True)


def test_parts_of_a_stage_do_not_shorten_it() -> None:
    left = begun(Ahead(100, True, 60, True))
    for unit in ("supernet epoch", "generation"):
        for done in range(1, 7):
            left.report(Progress("search", unit, done, 10), 1.0 * done)
    assert left.left(6.0) == Left(154, True)
    sweeps = begun(Ahead(100, False, 60, True))
    for done in range(1, 7):
        sweeps.report(Progress("profile", "point", done, 10), 1.0 * done)
    assert sweeps.left(6.0) == Left(154, True)


def test_a_stage_of_which_nothing_is_known_makes_it_a_lower_bound() -> None:
    left = begun(Ahead(None, False, 60, True))
    assert str(left.left(5.0)) == "at least 60 s left in all"
    assert str(begun(Ahead(20, False, 0, False)).left(5.0)) == "at least 15 s left in all"
    assert (
        str(begun(Ahead(20, False, 280, True)).left(25.0)) == "at least 5 min left in all"
    )  # it takes longer
    assert begun(Ahead(None, False, 0, True)).left(5.0) is None
    assert begun(None).left(5.0) is None


@pytest.mark.parametrize("terminal", [True, False])
def test_the_display_says_it(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    clock, written = Clock(), StringIO()
    monkeypatch.setattr("jcw_core.cli.progress.time.monotonic", clock)
    with TerminalProgress(Console(file=written, force_terminal=terminal, width=150)) as progress:
        progress.stage(StageEvent("search", "started", 0, 2, ahead=Ahead(None, True, 220, True)))
        clock.now = 30.0
        progress.jcw_progress(Progress("search", "generation", 1, 10))
        progress._bars.refresh()
        assert "about 8 min left in all" in written.getvalue()
        progress.stage(StageEvent("search", "ended", 0, 2))
        progress.stage(StageEvent("report", "started", 1, 2, ahead=Ahead(None, False, 0, True)))
        progress._bars.refresh()
        assert ("time left in all is not known yet" in written.getvalue()) == terminal


def test_those_who_watch_are_told(tmp_path: Path) -> None:
    registry = opened_here(tmp_path).registry
    with telling(tmp_path, registry) as stage:
        stage(StageEvent("work", "started", 0, 2, ahead=Ahead(300, True, 0, True)))
        found = Standing.read(tmp_path)
        assert found is not None
        assert found.left == "about 5 min left in all"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.1, "1 s"), (89.4, "89 s"), (90, "2 min"), (7000, "2 h"), (3e5, "3 days")]
)
def test_rough_durations(seconds: float, words: str) -> None:
    assert roughly(seconds) == words
