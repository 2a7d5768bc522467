"""How long stages took: added up over interruptions, kept with what is finished, and said by reports."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from report_samples import context_of, write_run
from test_pipeline import THREE, ToyStage, make

from jcw_core.cli.commands import show
from jcw_core.errors import JcwError
from jcw_core.report import durations
from jcw_core.report.stages import ReportStage
from jcw_core.run import durations as stopwatches
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import run
from jcw_core.shown import duration


class Clock:
    """A clock that goes only when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(stopwatches, "time", made)
    return made


class Slow(ToyStage):
    """Takes five seconds; ends with ``error`` as long as it has one."""

    clock = Clock()
    error: BaseException | None = None

    def run(self, context: Context) -> Sequence[str]:
        self.clock.now += 5
        if self.error is not None:
            raise self.error
        return super().run(context)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), JcwError("full"), MemoryError()])
def test_attempts_add_up_and_what_is_finished_keeps_its_time(
    tmp_path: Path, clock: Clock, error: BaseException
) -> None:
    slow = Slow("slow")
    slow.clock, slow.error = clock, error
    context = make(tmp_path, [slow])
    for _ in range(2):
        with pytest.raises(type(error)):
            run(context, "slow")
        clock.now += 1000
    slow.error = None
    run(context, "slow")
    assert context.directory.durations() == {"slow": 15}
    run(context, "slow")
    assert context.directory.durations() == {"slow": 15}


def test_attempts_from_other_inputs_do_not_count(tmp_path: Path, clock: Clock) -> None:
    slow = Slow("slow", section="slow")
    slow.clock, slow.error = clock, KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run(make(tmp_path, [slow]), "slow")
    slow.error = None
    changed = make(tmp_path, [slow], "[slow]\nvalue = 2\n")
    run(changed, "slow")
    assert changed.directory.durations() == {"slow": 5}


@pytest.mark.parametrize("text", ["", "soon", "nan", "-3", "\xff"])
def test_a_damaged_time_counts_as_none(tmp_path: Path, clock: Clock, text: str) -> None:
    (tmp_path / "seconds").write_text(text, encoding="latin-1")
    with stopwatches.stopwatch(tmp_path) as seconds:
        clock.now += 2
        assert seconds() == 2


def test_stages_are_listed_as_they_ended_and_those_of_older_versions_left_out(tmp_path: Path) -> None:
    context = make(tmp_path)
    run(context, "third")
    assert list(context.directory.durations()) == ["first", "second", "third"]
    record = tmp_path / "runs" / "toy" / ".state" / "second.json"
    document = json.loads(record.read_text())
    record.write_text(json.dumps({key: document[key] for key in ("inputs", "outputs")}))
    (record.parent / "first.json").write_text("[]")
    assert list(context.directory.durations()) == ["third"]
    assert context.directory.outputs("second") == ["second-extra.txt", "second.txt"]


def test_times_change_no_fingerprint(tmp_path: Path, clock: Clock) -> None:
    context = make(tmp_path)
    run(context, "third")
    state = context.path(".state")
    inputs = {path.name: json.loads(path.read_text())["inputs"] for path in state.iterdir()}
    clock.now += 7
    other = tmp_path / "other"
    other.mkdir()
    run(make(other, THREE), "third")
    again = {
        path.name: json.loads(path.read_text())["inputs"] for path in (other / "runs/toy/.state").iterdir()
    }
    assert inputs == again


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.0 s"), (0.44, "0.4 s"), (9.96, "10 s"), (59.6, "1 min 0 s"), (185, "3 min 5 s"),
        (3599.7, "1 h 0 min"), (7620, "2 h 7 min"), (3_600_000, "1,000 h 0 min"),
    ],
)  # fmt: skip
def test_times_are_shown_in_units_that_fit(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_a_report_says_how_long_it_took(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    write_run(context)
    RunDirectory(context.path(".")).scratch("<search>")
    for stage, seconds in (("profile", 65.0), ("<search>", 3.25)):
        context.directory.finish(stage, "key", (), seconds)
    ReportStage().run(context)
    report = json.loads(context.path("report.json").read_text())
    assert report["made"]["seconds"] == {"profile": 65.0, "<search>": 3.25}
    page = context.path("report.html").read_text()
    rows = re.findall(
        r"<tr><th scope=\"row\">([^/]*)</th><td>([^<]*)</td></tr>", page.partition("How long it")[2]
    )
    assert rows[:3] == [("profile", "1 min 5 s"), ("&lt;search&gt;", "3.2 s"), ("all", "1 min 8 s")]
    shown = CliRunner().invoke(show, [str(context.directory.root)])
    assert "\ntook 1 min 8 s: profile 1 min 5 s, <search> 3.2 s\n" in shown.output


@pytest.mark.parametrize("made", [None, 3, {}, {"seconds": [3]}, {"seconds": {"profile": None}}])
def test_a_report_of_an_older_version_says_nothing_of_it(made: object) -> None:
    assert durations.table({"made": made}) == durations.line({"made": made}) == ""
