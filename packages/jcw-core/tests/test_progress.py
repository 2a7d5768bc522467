"""Progress shows words as they are, in a terminal and without one."""

from __future__ import annotations

import itertools
import random
import re
from io import StringIO

import pytest
from rich.console import Console

from jcw_core.cli.progress import TerminalProgress
from jcw_core.protocols import Progress
from jcw_core.run.pipeline import StageEvent
from jcw_core.run.remaining import RemainingTime


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("word", ["[/x]", "[bold]"])
def test_words_are_not_markup(word: str, terminal: bool) -> None:
    written = StringIO()
    with TerminalProgress(Console(file=written, force_terminal=terminal, width=100)) as progress:
        progress.stage(StageEvent(word, "started", 0, 1))
        progress.jcw_progress(Progress("stage", word, 2, 2, f"detail {word}"))
        progress.jcw_progress(Progress(word, "layer", 2, 2, "at the end"))
    assert f"[1/1] {word}" in written.getvalue()
    assert written.getvalue().count(word) >= 3


def test_a_log_has_no_line_for_each_of_many_short_parts() -> None:
    written = StringIO()
    with TerminalProgress(Console(file=written, width=100)) as progress:
        for sweep in range(50):
            progress.jcw_progress(Progress("profile", "point", 3, 3, f"sweep {sweep}"))
        progress.jcw_progress(Progress("profile", "network", 3, 3))
        progress.jcw_progress(Progress("measure", "network", 3, 3))
    # Some versions of rich end with an empty line.
    assert written.getvalue().rstrip().splitlines() == [
        "  profile: 3/3 point  sweep 0",
        "  profile: 3/3 network",
        "  measure: 3/3 network",
    ]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lanes(rng: random.Random, count: int, units: int, lanes: int, before: int) -> list[tuple[float, int]]:
    """When each report comes and what it says: models of ``units`` each, side by side, the first of them resumed."""
    seconds, free = rng.uniform(0.5, 30), [0.0] * lanes
    reports: list[tuple[float, int, int]] = []
    for model in range(count):
        lane = min(range(lanes), key=free.__getitem__)
        done = before if model < lanes else 0
        for unit in range(done, units):
            free[lane] += seconds * rng.uniform(0.8, 1.2)
            reports.append((free[lane], model, unit + 1))
    known, told = [0] * count, []
    for time, model, done in sorted(reports):
        known[model] = done
        told.append((time, sum(known)))
    return told


@pytest.mark.parametrize("seed", range(60))
def test_the_time_left_is_about_right_whatever_runs_side_by_side(seed: int) -> None:
    rng = random.Random(seed)
    width, units = rng.choice([1, 2, 4, 8]), rng.randint(4, 40)
    count = width * rng.randint(1, 4)
    told = lanes(rng, count, units, width, rng.choice([0, 0, units // 2]))
    estimate, total, end = RemainingTime(0.0), count * units, told[-1][0]
    for index, (now, done) in enumerate(told[:-1], start=1):
        estimate.update(now, done, total)
        # Two rounds of all lanes, after which each has told where it goes on from.
        if index < max(5, 2 * width):
            continue
        left = estimate.seconds(now)
        assert left is not None
        # A lane's unit of slack, as the last ones do not end at one time.
        slack = 1.3 * told[0][0]
        assert 0.6 * (end - now) - slack <= left <= 1.7 * (end - now) + slack, (now, done, total)
    estimate.update(*told[-1], total)
    assert estimate.seconds(end) is None


@pytest.mark.parametrize("terminal", [True, False])
def test_two_lanes_do_not_make_the_time_left_jump(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    clock, written = Clock(), StringIO()
    monkeypatch.setattr("jcw_core.cli.progress.time.monotonic", clock)
    with TerminalProgress(Console(file=written, force_terminal=terminal, width=150)) as progress:
        progress.stage(StageEvent("retrain", "started", 0, 1))
        for done in range(1, 101):
            # Both lanes take 10 seconds for a unit and end it within a tenth of one.
            clock.now = (done + 1) // 2 * 10 + done % 2 * -0.1
            progress.jcw_progress(Progress("retrain", "epoch", done, 100))
            if terminal and done >= 5:
                progress._bars.refresh()
    shown = written.getvalue()
    if terminal:
        left = [int(h) * 3600 + int(m) * 60 + int(s) for h, m, s in re.findall(r"(\d):(\d\d):(\d\d)", shown)]
    else:
        left = [int(seconds) for seconds in re.findall(r", (\d+) s left", shown)]
    assert len(left) > 30
    assert all(later <= earlier + 100 for earlier, later in itertools.pairwise(left))
    assert left[0] <= 600
    assert left[0] >= 300
    assert left[-1] < 20


def test_the_clock_goes_on_between_reports() -> None:
    estimate = RemainingTime(100.0)
    assert estimate.seconds(100.0) is None
    estimate.update(103.0, 0, 10)
    for done in range(1, 6):
        estimate.update(103.0 + 2 * done, done, 10)
    assert estimate.seconds(113.0) == pytest.approx(10.0)
    assert estimate.seconds(115.0) == pytest.approx(8.0)
    assert estimate.seconds(999.0) == 0.0
