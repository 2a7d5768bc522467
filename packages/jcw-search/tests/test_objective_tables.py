"""Objectives that read a recipe table: the search is their work too, so it runs again when the table changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import search_world

import jcw_search.plugin
from jcw_core.errors import PluginError
from jcw_core.hookspecs import hookimpl
from jcw_core.options import option
from jcw_core.protocols import Run
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run import records
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import run
from jcw_core.space.space import Population, SearchSpace

RECIPE = """
network = { backbone = "resnet18", width = 0.25 }
data = { name = "nothing", holdout = 100 }
search = { algorithm = "plain", population = 4, generations = 1 }
meter = { factor = FACTOR }
"""


@dataclass(frozen=True)
class MeterOptions:
    factor: float = option(1.0)


class Meter:
    """A stage whose table changes nothing in the file that it makes."""

    name, section, options, reads, makes = "meter", "meter", MeterOptions, (), ("meter.txt",)

    def needs(self, run: Run) -> tuple[str, ...]:
        return ()

    def run(self, context: Context) -> tuple[str, ...]:
        context.path("meter.txt").touch()
        return ()


class Metered:
    """An objective that multiplies by the meter's factor."""

    unit, needs = "", ("meter.txt",)

    def __init__(self, name: str, *reads: str) -> None:
        self.name = name
        if reads:
            self.reads = reads

    def open(self, context: Context) -> Metered:
        self.factor = context.options(MeterOptions).factor
        return self

    def begin_generation(self, population: Population, generation: int) -> bool:
        return False

    def evaluate(self, space: SearchSpace, population: Population) -> Population:
        share = space.encode(population).mean(axis=1)
        return self.factor * (share if self.name == "latency" else 1 - share)


class Meters(search_world.Plugin):
    """The world with other objectives, and the stage that they need."""

    def __init__(self, *objectives: Any) -> None:
        super().__init__(None)
        self.objectives = objectives

    @hookimpl
    def jcw_register_stages(self) -> list[Any]:
        return [Meter()]

    @hookimpl
    def jcw_register_objectives(self) -> Any:
        return self.objectives


def search(folder: Path, factor: float, *objectives: Any) -> tuple[str, Any]:
    """Run until the search; what became of it, and its front."""
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE.replace("FACTOR", str(factor)))
    registry = Registry({"search": jcw_search.plugin, "meters": Meters(*objectives)}, installed=False)
    context = Context(load_recipe(recipe, registry), registry, RunDirectory(folder / "run"))
    events = []
    run(context, "search", events.append)
    state = next(event.state for event in events if event.stage == "search")
    return state, records.Front.read(context.path(records.FRONT)).candidates


@pytest.mark.parametrize("reader", ["latency", "error"])
def test_the_search_runs_again_when_the_table_changes(tmp_path: Path, reader: str) -> None:
    objectives = [Metered(name, *(["meter"] if name == reader else [])) for name in ("latency", "error")]
    state, before = search(tmp_path, 1.0, *objectives)
    assert state == "started"
    assert search(tmp_path, 1.0, *objectives) == ("skipped", before)
    state, after = search(tmp_path, 2.0, *objectives)
    assert state == "started"
    assert max(c.objectives["latency"] for c in after) > max(c.objectives["latency"] for c in before)


def test_the_search_does_not_run_again_for_tables_that_nothing_reads(tmp_path: Path) -> None:
    objectives = Metered("latency"), Metered("error")
    search(tmp_path, 1.0, *objectives)
    assert search(tmp_path, 2.0, *objectives)[0] == "skipped"


def test_a_table_that_no_stage_owns_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"reads the recipe table \[metre\].*there is: run, .*meter"):
        search(tmp_path, 1.0, Metered("latency"), Metered("error", "metre"))
