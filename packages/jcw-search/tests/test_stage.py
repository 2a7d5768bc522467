"""The stage: its front, its checkpoint, its options, its part of the report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import search_world

import jcw_search.plugin
from jcw_core.errors import FormatError, RecipeError
from jcw_core.network.architecture import Architecture
from jcw_core.network.shrink import kept_macs
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run import records
from jcw_core.run.context import Context
from jcw_core.space.space import SearchSpace
from jcw_search import AssistedSearch, Evolution, UniformSelection, Variation
from jcw_search.options import SearchOptions
from jcw_search.report_section import SearchSection
from jcw_search.stages import SearchStage, _search, _selection

RECIPE = """
[run]
seed = 5
[network]
backbone = "resnet18"
width = 0.25
[data]
name = "nothing"
holdout = 100
[search]
algorithm = "plain"
population = 8
generations = 12
"""
ASSISTED = RECIPE.replace("plain", "assisted")


def make(folder: Path, recipe: str = RECIPE) -> Context:
    """A context whose data, latency and error come from ``search_world``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.toml"
    path.write_text(recipe)
    return search_world.context(path, folder / "run")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0, ""), (0.5, ", about 52 s here"), (60.0, ", about 1 h 44 min here")]
)
def test_a_plan_says_how_long_its_architectures_take_where_objectives_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, words: str
) -> None:
    if seconds:
        monkeypatch.setattr(search_world.Toy, "seconds", lambda toy, run: seconds / 2, raising=False)
    assert SearchStage().plan(make(tmp_path)) == f"population 8 x 12 generations{words}"


def changed(**keys: Any) -> str:
    return RECIPE + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def test_the_stage_writes_a_front_that_reads_back(tmp_path: Path) -> None:
    context = make(tmp_path)
    stage = SearchStage()
    assert stage.needs(context) == ("table.npz", "supernet.safetensors")
    assert list(stage.run(context)) == []
    front = records.Front.read(context.path(records.FRONT))
    assert front.network == "resnet18"
    assert dict(front.units) == {"latency": "ms", "error": "share"}
    latencies = [c.objectives["latency"] for c in front.candidates]
    errors = [c.objectives["error"] for c in front.candidates]
    assert latencies == sorted(latencies)
    assert errors == sorted(errors, reverse=True)
    assert front.search["strategy"] == "uniform"
    assert front.search["variant"] == "joint"
    assert (front.search["population"], front.search["generations"]) == (8, 12)
    assert front.search["evaluated"] == 8 * 13
    assert len(front.search["hypervolume"]) == 13
    assert len(front.search["population_latency_ms"]) == 8
    assert front.search["failed"] == front.search["again"] == []
    context.space.row(front.candidates[0].architecture)


def test_each_generation_is_announced_with_what_it_reached(tmp_path: Path) -> None:
    context = make(tmp_path)
    events = []
    context.registry.progress = events.append
    SearchStage().run(context)
    assert [(e.stage, e.unit, e.done, e.total) for e in events] == [
        ("search", "generation", g, 12) for g in range(13)
    ]
    assert "hypervolume 0." in events[-1].detail
    assert "best error 0." in events[-1].detail
    assert "104 evaluated" in events[-1].detail


@pytest.mark.parametrize(
    ("algorithm", "variant"), [("plain", "joint"), ("plain", "sequential"), ("assisted", "sequential")]
)
def test_killed_and_started_again_it_ends_with_the_same_front(
    tmp_path: Path, algorithm: str, variant: str
) -> None:
    recipe = changed(variant=variant).replace("plain", algorithm)
    whole = make(tmp_path / "whole", recipe)
    SearchStage().run(whole)
    expected = whole.path(records.FRONT).read_bytes()

    cut = make(tmp_path / "cut", recipe)
    for die_at in (1, 4, 9):
        done = run_and_die(tmp_path / "cut", die_at)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert not cut.path(records.FRONT).exists()
        state = np.load(cut.directory.scratch("search") / "state.npz", allow_pickle=False)
        assert int(state["generation"]) == die_at - 1
    SearchStage().run(cut)
    assert cut.path(records.FRONT).read_bytes() == expected


def run_and_die(folder: Path, generation: int) -> subprocess.CompletedProcess[str]:
    """Run the stage in a process that is killed in the middle of evaluating ``generation``."""
    script = f"""
        from search_world import context
        from jcw_search.stages import SearchStage
        SearchStage().run(context({str(folder / "recipe.toml")!r}, {str(folder / "run")!r}, die_at={generation}))
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True
    )


def test_a_damaged_checkpoint_costs_time_but_not_the_result(tmp_path: Path) -> None:
    context = make(tmp_path)
    SearchStage().run(context)
    expected = context.path(records.FRONT).read_bytes()
    state = context.directory.scratch("search") / "state.npz"
    state.write_bytes(state.read_bytes()[:-1])
    SearchStage().run(context)
    assert context.path(records.FRONT).read_bytes() == expected


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"selection": "uniformly"}, r"recipe.toml:\d+: \[search\] selection: .*there is: nsga2, uniform"),
        (
            {"objectives": ["latency", "errors"]},
            r"recipe.toml:\d+: \[search\] objectives: .*there is: bytes, error",
        ),
        ({"selection": "nsga2", "targets": 4}, r"\[search\] targets: selection 'nsga2' takes no targets"),
    ],
)
def test_a_plugin_that_is_not_there_is_refused_before_any_work(
    tmp_path: Path, keys: dict[str, Any], message: str
) -> None:
    recipe = make(tmp_path, changed(**keys))
    with pytest.raises(RecipeError, match=message):
        SearchStage().needs(recipe)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"objectives": ["error", "latency"]}, 'give "latency" first'),
        ({"objectives": ["latency"]}, "at least one more"),
        ({"objectives": ["latency", "error", "error"]}, "twice"),
        ({"targets": 1}, "targets: 1 is impossible"),
        ({"variant": "depth"}, "'depth' is not one of 'joint'"),
        ({"mutation": 1.5}, "mutation: 1.5 is impossible"),
        ({"popultion": 8}, "did you mean 'population'"),
        ({"min_latency_ms": 3.0, "max_latency_ms": 2.0}, "min_latency_ms: 3 is above max_latency_ms = 2"),
        ({"max_weights": 0}, "max_weights: 0.0 is impossible"),
    ],
)
def test_impossible_options_are_refused_with_their_key(
    tmp_path: Path, keys: dict[str, Any], message: str
) -> None:
    context = make(tmp_path)
    path = tmp_path / "recipe.toml"
    path.write_text(changed(**keys))
    with pytest.raises(RecipeError, match=message):
        load_recipe(path, context.registry)


@pytest.mark.parametrize(
    "keys", [{"selection": "uniform"}, {"targets": 4}, {"mu_c": 0.5}, {"mu_m": 15.0}, {"mutation": 0.1}]
)
def test_keys_of_the_plain_search_are_refused_elsewhere(tmp_path: Path, keys: dict[str, Any]) -> None:
    context = make(tmp_path)
    path = tmp_path / "recipe.toml"
    path.write_text(changed(**keys).replace("plain", "assisted"))
    with pytest.raises(RecipeError, match=f'{next(iter(keys))} is a key .* give algorithm = "plain"'):
        load_recipe(path, context.registry)


@pytest.mark.parametrize("algorithm", ["plain", "assisted"])
@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"max_latency_ms": 1.0}, r"max_latency_ms: no architecture .* give at least \d"),
        ({"min_latency_ms": 21.0}, "min_latency_ms: no architecture .* give at most 20"),
        ({"max_macs": 10}, r"max_macs: no architecture .* give at least \d"),
        ({"max_bytes": 10}, r"max_bytes: no architecture .* give at least \d"),
        ({"max_weights": 10}, r"max_weights: no architecture .* give at least \d"),
    ],
)
def test_what_cannot_be_met_names_its_line_and_the_nearest_value(
    tmp_path: Path, algorithm: str, keys: dict[str, Any], message: str
) -> None:
    """Before the stage runs, and when it does."""
    context = make(tmp_path, changed(**keys).replace("plain", algorithm))
    for step in (SearchStage().check, SearchStage().run):
        with pytest.raises(RecipeError, match=r"recipe.toml:\d+: \[search\] " + message):
            step(context)


def test_a_population_larger_than_the_space_is_refused_before_any_work(tmp_path: Path) -> None:
    bounds = '[space]\nbounds = [{layers = "fc", width = 1, density = 0.98}, {layers = "*", width = 1, density = 1}]'
    context = make(tmp_path, changed() + bounds)
    assert SearchStage().check_reads(context) == ()
    with pytest.raises(RecipeError, match="population: 8 is more than the 3 architectures"):
        SearchStage().check(context)


def test_a_window_is_checked_when_latencies_are_known(tmp_path: Path) -> None:
    stage, context = SearchStage(), make(tmp_path, changed(max_latency_ms=15.0))
    assert stage.check_reads(context) == tuple(context.registry.objectives["latency"].needs)
    assert stage.check(context) == ()


def test_a_search_resumed_with_another_objective_is_refused(tmp_path: Path) -> None:
    """Within a run a changed recipe empties the scratch folder; here it is left as it was."""
    SearchStage().run(make(tmp_path))
    with pytest.raises(
        RecipeError, match=r"\[search\] objectives: .*state\.npz is of a search with .*'error'\]"
    ):
        SearchStage().run(make(tmp_path, changed(objectives=["latency", "macs"])))


def test_costs_are_objectives_and_constraints(tmp_path: Path) -> None:
    keys = {"objectives": ["latency", "error", "macs", "weights", "bytes"], "max_latency_ms": 15.0}
    context = make(tmp_path, changed(**keys).replace("plain", "assisted"))
    SearchStage().run(context)
    front = records.Front.read(context.path(records.FRONT))
    assert dict(front.units) == {"latency": "ms", "error": "share", "macs": "", "weights": "", "bytes": "B"}
    assert max(c.objectives["latency"] for c in front.candidates) <= 15
    for candidate in front.candidates:
        assert round(candidate.objectives["macs"]) == kept_macs(context.network, candidate.architecture)


@pytest.mark.parametrize("algorithm", ["plain", "assisted"])
def test_failures_and_values_that_chose_nothing_stand_in_the_front(tmp_path: Path, algorithm: str) -> None:
    context = make(tmp_path, RECIPE.replace("plain", algorithm))
    plugin = context.registry.objectives["error"]
    evaluate = plugin.evaluate

    def failing(space: SearchSpace, population: Any) -> Any:
        values = evaluate(space, population)
        values[::5] = np.nan
        return values

    plugin.evaluate = failing
    plugin.reevaluate = lambda space, population: evaluate(space, population) + 0.01
    details: list[str] = []
    context.registry.progress = lambda event: details.append(event.detail)
    SearchStage().run(context)
    front = records.Front.read(context.path(records.FRONT))
    assert front.search["again"] == ["error"]
    assert len(front.search["failed"]) > 12
    assert f"{len(front.search['failed'])} failed" in details[-1]
    for failed in front.search["failed"]:
        context.space.row(Architecture.from_dict(failed))
    # The assisted search chooses by its model, which is near its values where there is no noise, and not equal to them.
    near = 1e-6 if algorithm == "plain" else 1e-3
    for candidate in front.candidates:
        assert candidate.objectives["error"] == pytest.approx(candidate.estimates["error"] + 0.01, abs=near)
    data = SearchSection().data(context)
    assert data is not None
    assert f"{len(front.search['failed'])} more gave no finite value" in SearchSection().html(data)


@pytest.mark.parametrize(("keys", "expected"), [({}, 4), ({"targets": 9}, 9)])
def test_targets_reach_the_strategy(tmp_path: Path, keys: dict[str, Any], expected: int) -> None:
    context = make(tmp_path, changed(**keys))
    strategy = _selection(context.options(SearchOptions), context)
    assert strategy.targets == expected
    assert context.registry.selections["uniform"].targets == 4


def test_the_operators_options_reach_the_search(tmp_path: Path) -> None:
    context = make(tmp_path, changed(mu_c=3.0, mu_m=7.0, mutation=0.4))
    evolution = _search(context, context.options(SearchOptions))
    assert isinstance(evolution, Evolution)
    assert evolution.variation == Variation(mu_c=3, mu_m=7, probability=0.4)


def test_defaults_of_the_plain_search_are_the_papers(tmp_path: Path) -> None:
    recipe = RECIPE.replace("population = 8\ngenerations = 12\n", "")
    context = make(tmp_path, recipe)
    search = _search(context, context.options(SearchOptions))
    assert isinstance(search, Evolution)
    assert (search.population, search.generations, search.selection) == (64, 128, UniformSelection(4))
    assert search.variation == Variation(mu_c=0.5, mu_m=15, probability=0.1)


def test_the_default_is_assisted_with_832_evaluations(tmp_path: Path) -> None:
    context = make(tmp_path, RECIPE[: RECIPE.index("[search]")])
    search = _search(context, context.options(SearchOptions))
    assert isinstance(search, AssistedSearch)
    assert search.population * (1 + search.generations) == 832


def test_the_report_shows_the_search(tmp_path: Path) -> None:
    context = make(tmp_path)
    section = SearchSection()
    assert section.data(context) is None
    SearchStage().run(context)
    data = section.data(context)
    assert {"generations", "population", "evaluated", "hypervolume"} <= data.keys()
    assert 0 < data["hypervolume"] == data["hypervolume_curve"][-1] <= 1
    json.dumps(data, allow_nan=False)
    html = section.html(data)
    assert html.count("<svg") == 2
    assert "104 architectures" in html


@pytest.mark.parametrize(
    ("key", "value"),
    [("variant", None), ("strategy", 3), ("evaluated", "<b>"), ("generations", [1]), ("hypervolume", None),
     ("hypervolume", []), ("hypervolume", [1, "x"]), ("hypervolume", 0.5), ("population_latency_ms", {"a": 1}), ("population_latency_ms", [10**400])],
)  # fmt: skip
def test_a_front_that_does_not_say_how_it_was_found(tmp_path: Path, key: str, value: Any) -> None:
    """None stands for a key that is not there."""
    context = make(tmp_path)
    search = {"strategy": "s", "variant": "v", "generations": 1, "population": 2, "evaluated": 2,
              "hypervolume": [0.5], "population_latency_ms": [1.0, 2.0], key: value}  # fmt: skip
    kept = {name: found for name, found in search.items() if found is not None}
    records.Front("net", {}, [], kept).write(context.path(records.FRONT))
    with pytest.raises(FormatError, match=rf"front\.json: search\.{key} is"):
        SearchSection().data(context)


def test_a_front_of_another_search_has_nothing_to_show(tmp_path: Path) -> None:
    context = make(tmp_path)
    records.Front("net", {}, []).write(context.path(records.FRONT))
    assert SearchSection().data(context) is None


def test_the_plugin_registers_all_it_has() -> None:
    registry = Registry({"search": jcw_search.plugin}, installed=False)
    assert set(registry.selections) == {"uniform", "nsga2"}
    assert set(registry.stages) == {"search"}
    assert set(registry.report_sections) == {"search"}
    assert registry.failures == {}


def test_listing_the_plugin_loads_no_implementation() -> None:
    script = "import sys, jcw_search.plugin; print(sorted(m for m in sys.modules if m.startswith('moocore')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
