"""Settings that fit a time: found by measurement, kept by the run, never above what was asked for where less can be done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_pipeline import Plugin, ToyStage

from jcw_core.cli.commands import _in_words
from jcw_core.errors import RecipeError
from jcw_core.options import Location, option, parse
from jcw_core.protocols import Run
from jcw_core.recipe.recipe import RunOptions, load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import run
from jcw_core.run.time_limit import _key, cut_to_time
from jcw_core.shown import duration


@dataclass(frozen=True)
class Work:
    epochs: int = option(20, low=1)
    population: int = option(10, low=1)
    value: int = option(1)


@dataclass
class Working(ToyStage):
    """Takes so many seconds for each epoch and each of a population."""

    pace: float = 1.0

    @property
    def options(self) -> type:
        return Work

    def seconds(self, run: Run) -> float:
        work = run.options(Work)
        return self.pace * work.epochs * work.population

    def scaled(self, run: Run, share: float) -> Mapping[str, int]:
        work = run.options(Work)
        return {
            "work.epochs": max(1, round(work.epochs * share**0.5)),
            "work.population": max(2, round(work.population * share**0.5)),
        }


@dataclass
class Waiting(ToyStage):
    """Ends by itself."""

    seconds: float | None = None

    def ends_after(self, run: Run) -> float | None:
        return self.seconds


def opened(
    folder: Path, time: str, pace: float = 1.0, text: str = "", ends: float | None = None, **settings: int
) -> Context:
    last = ToyStage("last", ("work.txt", "wait.txt"))
    stages = Working("work", section="work", pace=pace), Waiting("wait", seconds=ends), last
    registry = Registry({"toy": Plugin(*stages)}, installed=False)
    recipe = folder / "recipe.toml"
    recipe.write_text(f'[run]\ntime = "{time}"\n[network]\nfile = "none.json"\n[data]\nname = "toy"\n{text}')
    read = load_recipe(recipe, registry, {f"work.{key}": value for key, value in settings.items()})
    return Context(read, registry, RunDirectory(folder / "run"))


@given(seconds=st.floats(0.01, 400), pace=st.floats(0.001, 10))
def test_a_time_is_met_where_it_can_be(
    tmp_path_factory: pytest.TempPathFactory, seconds: float, pace: float
) -> None:
    found = cut_to_time(opened(tmp_path_factory.mktemp("run"), f"{seconds:.4f} s", pace), "last", {})
    work = found.context.options(Work)
    assert found.seconds == pytest.approx(pace * work.epochs * work.population)
    assert found.settings == (
        {} if 200 * pace <= seconds else {"work.epochs": work.epochs, "work.population": work.population}
    )
    assert found.seconds <= seconds or (work.epochs, work.population) == (1, 2)


@pytest.mark.parametrize(("time", "is_met"), [("50 s", True), ("1 s", False)])
def test_a_time_that_cannot_be_met_is_said_to_be_missed(tmp_path: Path, time: str, is_met: bool) -> None:
    words = _in_words(cut_to_time(opened(tmp_path, time), "last", {}))
    assert (f"more than run.time = {time}" in words) != is_met


@pytest.mark.parametrize(("time", "ends"), [(100, 25), (100, 90), (1000, 25)])
def test_what_ends_by_itself_leaves_the_rest_of_a_time(tmp_path: Path, time: int, ends: int) -> None:
    found = cut_to_time(opened(tmp_path, f"{time} s", ends=ends), "last", {})
    rest = cut_to_time(opened(tmp_path, f"{time - ends} s"), "last", {})
    assert (found.settings, found.seconds, found.ends) == (rest.settings, rest.seconds, {"wait": ends})
    assert f"here, wait at most {duration(ends)}" in _in_words(found)
    assert "more than" not in _in_words(found)


def test_of_what_does_not_run_nothing_is_said(tmp_path: Path) -> None:
    found = cut_to_time(opened(tmp_path, "100 s", ends=25), "wait", {})
    assert _in_words(found) == "wait at most 25 s, as a share of run.time"


def test_what_takes_more_than_the_time_by_itself_is_said(tmp_path: Path) -> None:
    found = cut_to_time(opened(tmp_path, "50 s", ends=60.0), "last", {})
    assert found.context.options(Work) == Work(epochs=1, population=2)
    assert "more than run.time = 50 s" in _in_words(found)


def test_what_is_finished_takes_no_time_any_more(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text("{}")
    context = opened(tmp_path, "50 s", ends=40.0)
    run(context, "wait")
    assert cut_to_time(context, "last", {}).ends == {}
    assert cut_to_time(context, "last", {}).seconds > 10


def test_what_was_set_by_hand_stays(tmp_path: Path) -> None:
    context = opened(tmp_path, "50 s", epochs=10)
    found = cut_to_time(context, "last", {"work.epochs": 10})
    assert found.context.options(Work).epochs == 10
    assert set(found.settings) == {"work.population"}
    assert found.seconds <= 50


def test_a_run_goes_on_with_what_was_found_for_it(tmp_path: Path) -> None:
    first = cut_to_time(opened(tmp_path, "50 s"), "last", {})
    assert not (tmp_path / "run").exists()
    first.keep()
    slower = cut_to_time(opened(tmp_path, "50 s", pace=7.0), "last", {})
    assert (slower.settings, slower.seconds) == (first.settings, first.seconds)
    assert slower.context.options(Work) == first.context.options(Work)
    renamed = Context(
        replace(slower.context.recipe, run=replace(slower.context.recipe.run, name="copy")),
        slower.context.registry,
        slower.context.directory,
    )
    assert _key(renamed) == _key(slower.context)
    # Another recipe, or another time, is measured anew.
    assert cut_to_time(opened(tmp_path, "50 s", pace=7.0, epochs=19), "last", {}).settings != first.settings
    assert cut_to_time(opened(tmp_path, "60 s", pace=7.0), "last", {}).settings != first.settings


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '{"format": "jcw-time/1", "recipe": "x"}'])
def test_a_note_that_is_damaged_is_written_anew(tmp_path: Path, damage: str) -> None:
    first = cut_to_time(opened(tmp_path, "50 s"), "last", {})
    first.keep()
    path = tmp_path / "run" / ".state" / "time.json"
    good = json.loads(path.read_text())
    path.write_text(damage)
    cut_to_time(opened(tmp_path, "50 s"), "last", {}).keep()
    assert json.loads(path.read_text()) == good


@pytest.mark.parametrize(
    ("time", "seconds"), [("90 s", 90), ("5min", 300), ("1.5 h", 5400), ("", None), ("0.25 min", 15)]
)
def test_times(time: str, seconds: float | None) -> None:
    assert RunOptions(time=time).seconds == seconds


@pytest.mark.parametrize("time", ["5", "min", "0 s", "-1 s", "5 days", "1e3 s", "five min"])
def test_no_times(time: str) -> None:
    with pytest.raises(RecipeError, match=r'expected a time such as "90 s", "5 min" or "1\.5 h"'):
        parse(RunOptions, {"time": time}, Location(Path("recipe.toml")))
