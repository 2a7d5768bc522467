"""Stages run in order, are skipped when nothing changed, and survive being killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from jcw_core.cli.dry_run import print_plan
from jcw_core.errors import JcwError, PluginError, RecipeError
from jcw_core.hookspecs import hookimpl
from jcw_core.options import option
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import StageEvent, plan, run


@dataclass(frozen=True)
class ToyOptions:
    value: int = option(1)
    source: Path | None = option(None)


@dataclass
class ToyStage:
    """Appends its option to what it needs."""

    name: str
    needed: tuple[str, ...] = ()
    section: str = ""
    extra: str = ""
    forgets: bool = False
    reads: tuple[str, ...] = ()

    @property
    def options(self) -> type | None:
        return ToyOptions if self.section else None

    @property
    def makes(self) -> tuple[str, ...]:
        return (f"{self.name}.txt",)

    def needs(self, run: object) -> tuple[str, ...]:
        return self.needed

    def run(self, context: Context) -> Sequence[str]:
        if self.forgets:
            return ()
        text = "".join(context.path(name).read_text() for name in self.needed) + self.name
        if self.section:
            text += str(context.recipe.table(self.section).value)
        context.path(self.makes[0]).write_text(text)
        if self.extra:
            context.path(self.extra).write_text(text)
            return (self.extra,)
        return ()


class ToyData:
    name = "toy"

    @dataclass(frozen=True)
    class Options:
        size: int = option(3)

    options = Options

    def open(self, split: str, options: Options) -> object:
        raise NotImplementedError


class Plugin:
    def __init__(self, *stages: ToyStage) -> None:
        self.stages = stages

    @hookimpl
    def jcw_register_stages(self) -> Sequence[ToyStage]:
        return self.stages

    @hookimpl
    def jcw_register_datasets(self) -> Sequence[ToyData]:
        return [ToyData()]


THREE = (
    ToyStage("third", ("second.txt", "first.txt")),
    ToyStage("second", ("first.txt",), section="second", extra="second-extra.txt"),
    ToyStage("first"),
    ToyStage("unrelated"),
)


def make(tmp_path: Path, stages: Sequence[ToyStage] = THREE, text: str = "") -> Context:
    registry = Registry({"toy": Plugin(*stages)}, installed=False)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[network]\nfile = "none.json"\n[data]\nname = "toy"\n' + text)
    return Context(load_recipe(recipe, registry), registry, RunDirectory(tmp_path / "runs" / "toy"))


def states(context: Context, until: str = "third") -> list[tuple[str, str]]:
    events: list[StageEvent] = []
    run(context, until, events.append)
    return [(e.stage, e.state) for e in events if e.state != "ended"]


def test_stages_run_after_what_they_need(tmp_path: Path) -> None:
    context = make(tmp_path)
    assert [stage.name for stage in plan(context, "third")] == ["first", "second", "third"]
    assert states(context) == [("first", "started"), ("second", "started"), ("third", "started")]
    assert context.path("third.txt").read_text() == "firstsecond1firstthird"
    assert not context.path("unrelated.txt").exists()


def test_finished_stages_are_skipped(tmp_path: Path) -> None:
    states(make(tmp_path))
    assert {state for _, state in states(make(tmp_path))} == {"skipped"}


def test_a_changed_option_runs_its_stage_and_what_follows(tmp_path: Path) -> None:
    states(make(tmp_path))
    again = states(make(tmp_path, text="[second]\nvalue = 2\n"))
    assert again == [("first", "skipped"), ("second", "started"), ("third", "started")]


def test_a_changed_file_behind_an_option_runs_its_stage(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("old")
    text = '[second]\nsource = "source"\n'
    states(make(tmp_path, text=text))
    (tmp_path / "source").write_text("new")
    assert ("second", "started") in states(make(tmp_path, text=text))


@pytest.mark.parametrize("damaged", ["second.txt", "second-extra.txt"])
def test_a_damaged_output_is_made_again(tmp_path: Path, damaged: str) -> None:
    context = make(tmp_path)
    states(context)
    context.path(damaged).write_text("cut sh")
    assert ("second", "started") in states(make(tmp_path))


def test_a_stage_that_forgets_its_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JcwError, match=r"'only' ended without writing only\.txt"):
        run(make(tmp_path, [ToyStage("only", forgets=True)]), "only")


def test_a_missing_maker_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"'b' needs a\.txt, which no installed stage makes"):
        plan(make(tmp_path, [ToyStage("b", ("a.txt",))]), "b")


def test_a_circle_is_an_error(tmp_path: Path) -> None:
    circle = [ToyStage("a", ("b.txt",)), ToyStage("b", ("a.txt",))]
    with pytest.raises(PluginError, match="a -> b -> a"):
        plan(make(tmp_path, circle), "a")


def test_two_processes_cannot_work_on_one_run(tmp_path: Path) -> None:
    context = make(tmp_path)
    with context.directory.locked(), pytest.raises(JcwError, match="another process"):
        run(context, "first")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", 3, None, ".state/x"])
def test_a_stage_that_writes_elsewhere_is_an_error(tmp_path: Path, name: object) -> None:
    class Elsewhere(ToyStage):
        def run(self, context: Context) -> Sequence[str]:
            super().run(context)
            return (name,)  # type: ignore[return-value]

    with pytest.raises(JcwError, match=r"stage 'only' wrote .* no path inside the run; tell its author"):
        run(make(tmp_path, [Elsewhere("only")]), "only")


@dataclass
class Checked(ToyStage):
    """A stage with a check of the files in ``early``, which notes what it finds there."""

    early: tuple[str, ...] = ()

    def check_reads(self, run: Context) -> tuple[str, ...]:
        return self.early

    def check(self, run: Context) -> Sequence[str]:
        found = [run.path(name).read_text() for name in self.early]
        if "bad" in found:
            raise RecipeError("no")
        return [f"found {found}"]


@pytest.mark.parametrize(
    ("early", "place"),
    [((), 0), (("first.txt",), 1), (("first.txt", "second.txt"), 2), (("unrelated.txt",), None)],
)
def test_checks_are_made_once_and_as_soon_as_their_files_are_there(
    tmp_path: Path, early: tuple[str, ...], place: int | None
) -> None:
    stages = [*THREE[1:], Checked("third", ("second.txt", "first.txt"), early=early)]
    for state in ("ended", "skipped"):
        events: list[StageEvent] = []
        run(make(tmp_path, stages), "third", events.append)
        noted = [index for index, event in enumerate(events) if event.state == "noted"]
        if place is None:
            assert noted == []
            continue
        assert [events[i].stage for i in noted] == ["third"]
        assert sum(event.state == state for event in events[: noted[0]]) == place
        assert (
            events[noted[0]].note == f"found {[(tmp_path / 'runs/toy' / name).read_text() for name in early]}"
        )


def test_a_check_ends_the_run_before_further_stages(tmp_path: Path) -> None:
    class Bad(ToyStage):
        def run(self, context: Context) -> Sequence[str]:
            context.path(self.makes[0]).write_text("bad")
            return ()

    third = Checked("third", ("second.txt", "first.txt"), early=("first.txt",))
    context = make(tmp_path, [Bad("first"), THREE[1], third])
    with pytest.raises(RecipeError, match="no"):
        run(context, "third")
    assert not context.path("second.txt").exists()
    with pytest.raises(RecipeError, match="no"):
        print_plan(context, plan(context, "third"))


def test_a_plan_tells_what_is_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Planned(Checked):
        def plan(self, run: Context) -> str:
            return "3 epochs\x1b[31m"

    stages = [*THREE[1:], Planned("third", ("second.txt", "first.txt"), early=("second.txt",))]
    lines = [
        "first        -> first.txt",
        "second       -> second.txt",
        "third        -> third.txt  (3 epochs\\x1b[31m)",
    ]

    def planned(text: str = "") -> list[str]:
        context = make(tmp_path, stages, text)
        print_plan(context, plan(context, "third"))
        return capsys.readouterr().out.splitlines()

    assert planned() == lines
    assert not (tmp_path / "runs").exists()
    run(make(tmp_path, stages), "second")
    assert planned() == [lines[0] + "  (finished)", lines[1] + "  (finished)", lines[2]]
    run(make(tmp_path, stages), "third")
    assert planned()[2] == lines[2][:-1] + "; finished)"
    print_plan(made := make(tmp_path, stages), plan(made, "third"), as_json=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == {"stage": "first", "makes": ["first.txt"], "work": None, "finished": True}
    assert rows[2]["work"] == "3 epochs\x1b[31m"
    # What follows a stage that is not finished is not either.
    assert planned("[second]\nvalue = 2\n") == [lines[0] + "  (finished)", *lines[1:]]


def test_a_copied_run_under_another_name_and_with_other_workers_is_finished(tmp_path: Path) -> None:
    states(make(tmp_path, text='[run]\nname = "toy"\n'))
    shutil.copytree(tmp_path / "runs" / "toy", tmp_path / "runs" / "copy")
    copied = make(tmp_path, text='[run]\nname = "copy"\nworkers = 7\n')
    copied = Context(copied.recipe, copied.registry, RunDirectory(tmp_path / "runs" / "copy"))
    assert {state for _, state in states(copied)} == {"skipped"}
    other = make(tmp_path, text='[run]\nname = "copy"\nseed = 1\n')
    assert {state for _, state in states(other)} == {"started"}


SLEEPER = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from jcw_core.run.pipeline import run
import test_pipeline as t

class Sleeper(t.ToyStage):
    def run(self, context):
        context.path(self.makes[0]).write_text("half")
        print("ready", flush=True)
        time.sleep(60)

run(t.make(Path({root!r}), [t.ToyStage("first"), Sleeper("second", ("first.txt",))]), "second")
"""


def test_killed_in_the_middle_of_a_stage(tmp_path: Path) -> None:
    code = SLEEPER.format(tests=str(Path(__file__).parent), root=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        os.kill(process.pid, signal.SIGKILL)
    again = make(tmp_path, [ToyStage("first"), ToyStage("second", ("first.txt",))])
    assert states(again, "second") == [("first", "skipped"), ("second", "started")]
    assert again.path("second.txt").read_text() == "firstsecond"


class Indexed(ToyStage):
    """Its index never changes, the file that it lists does."""

    def run(self, context: Context) -> Sequence[str]:
        context.path(self.makes[0]).write_text("content.txt")
        context.path("content.txt").write_text(str(context.recipe.table(self.section).value))
        return ("content.txt",)


class Follows(ToyStage):
    def run(self, context: Context) -> Sequence[str]:
        context.path(self.makes[0]).write_text(context.path("content.txt").read_text())
        return ()


def test_a_stage_runs_again_when_a_file_that_an_index_names_has_changed(tmp_path: Path) -> None:
    stages = (Indexed("indexed", section="indexed"), Follows("follows", ("indexed.txt",)))
    for value in (1, 2):
        context = make(tmp_path, stages, f"[indexed]\nvalue = {value}\n")
        run(context, "follows")
        assert context.path("follows.txt").read_text() == str(value)
    assert states(context, "follows") == [("indexed", "skipped"), ("follows", "skipped")]
