"""Budgets that cannot be met are refused as soon as latencies can be predicted, with the nearest that can."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrain_samples import Plugin, network, open_run

from jcw_core import plugin as core_plugin
from jcw_core.errors import RecipeError
from jcw_core.hookspecs import hookimpl
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import run
from jcw_core.space.space import SearchSpace
from jcw_retrain import plugin as retrain_plugin
from jcw_retrain.budgets import fastest_ms
from jcw_retrain.choosing import at_least

TABLE = "table.txt"


class Latency:
    """A sum over variables, of which some are fastest whole."""

    name, unit, needs = "latency", "ms", (TABLE,)

    def __init__(self, costs: Callable[[SearchSpace, Any], Any]) -> None:
        self.costs = costs

    def open(self, context: Context) -> Latency:
        assert context.path(TABLE).read_text() == "made"
        return self

    def begin_generation(self, population: Any, generation: int) -> bool:
        return False

    def evaluate(self, space: SearchSpace, population: Any) -> Any:
        return self.costs(space, population)


class TableStage:
    name, section, options, reads, makes = "profile", "", None, (), (TABLE,)

    def needs(self, *_: object) -> tuple[str, ...]:
        return ()

    def run(self, context: Context) -> tuple[str, ...]:
        context.path(TABLE).write_text("made")
        return ()


class WithLatency(Plugin):
    """The samples with a search that reads a table of latencies."""

    def __init__(self, costs: Callable[[SearchSpace, Any], Any]) -> None:
        super().__init__()
        self.costs = costs

    @hookimpl
    def jcw_register_objectives(self) -> list[object]:
        return [Latency(self.costs)]

    @hookimpl
    def jcw_register_stages(self) -> list[object]:
        (search,) = super().jcw_register_stages()
        search.needs = lambda *_: (TABLE,)  # type: ignore[attr-defined]
        search.run = lambda context: pytest.fail("the search has begun")  # type: ignore[attr-defined]
        return [TableStage(), search]


def simple(space: SearchSpace, population: Any) -> Any:
    return 1.23456 * space.encode(population).sum(axis=1)


def retrain_with(
    tmp_path: Path, budgets: str, costs: Callable[[SearchSpace, Any], Any] = simple
) -> list[str]:
    """Run until the search; the notes."""
    open_run(tmp_path, f"budgets_ms = {budgets}")
    plugin = WithLatency(costs)
    plugins = {"core": core_plugin, "samples": plugin, "retrain": retrain_plugin}
    registry = Registry(plugins, installed=False)
    recipe = load_recipe(tmp_path / "recipe.toml", registry)
    events: list[Any] = []
    with pytest.raises(pytest.fail.Exception, match="the search has begun"):
        run(Context(recipe, registry, RunDirectory(tmp_path / "run")), "retrain", events.append)
    return [event.note for event in events if event.state == "noted"]


@pytest.mark.parametrize("budget", ["0.0", "0", "-1.0", "[1.0, 0.0]", "inf", "nan", "-0.0"])
def test_budgets_that_are_none_are_refused_with_the_recipe(tmp_path: Path, budget: str) -> None:
    with pytest.raises(
        RecipeError, match=r"recipe\.toml:\d+: \[retrain\] budgets_ms: .* (expected|impossible)"
    ):
        open_run(tmp_path, f"budgets_ms = {budget if budget[0] == '[' else f'[{budget}]'}")


def test_a_budget_below_the_fastest_network_is_refused_after_the_profile(tmp_path: Path) -> None:
    space = SearchSpace.of(network())
    fastest, dense = simple(space, np.stack([space.low, space.maximum]))
    with pytest.raises(RecipeError, match=r"recipe\.toml:\d+: \[retrain\] budgets_ms: no network") as caught:
        retrain_with(tmp_path, f"[{fastest * 0.999:.9f}, 1000.0]")
    wanted = re.search(r"ask for at least (\S+)", str(caught.value))
    assert wanted is not None
    # What is proposed works, and is not much more than what is needed.
    assert fastest <= float(wanted[1]) <= fastest * 1.002
    assert retrain_with(tmp_path, f"[{wanted[1]}, {(fastest + dense) / 2}]") == []


def test_a_budget_that_the_dense_network_meets_is_noted(tmp_path: Path) -> None:
    dense = float(simple(space := SearchSpace.of(network()), space.maximum[None])[0])
    (note,) = retrain_with(tmp_path, f"[{dense * 0.9}, {dense * 1.1}]")
    assert re.match(r"retrain\.budgets_ms: the dense network is predicted to take .* within", note)


def test_without_budgets_nothing_is_checked(tmp_path: Path) -> None:
    assert retrain_with(tmp_path, "[]", lambda *_: pytest.fail("asked")) == []


@given(seed=st.integers(0, 10**6))
def test_the_fastest_network_is_found_where_the_smallest_is_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    space = SearchSpace.of(network())
    slopes = rng.normal(size=space.dimensions)

    def costs(space: SearchSpace, population: Any) -> Any:
        return 10 + space.encode(population) @ slopes

    corners = np.array(list(itertools.product(*zip(space.low, space.high, strict=True))))
    found = fastest_ms(Latency(costs), space)
    assert found == pytest.approx(costs(space, corners).min())


@given(value=st.floats(1e-6, 1e9))
def test_what_is_proposed_is_enough(value: float) -> None:
    assert value <= float(at_least(value)) <= value * 1.0011
