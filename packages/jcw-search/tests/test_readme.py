"""The README's snippets run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from jcw_core.options import Location, parse
from jcw_core.registry import Registry
from jcw_core.space.space import SearchSpace
from jcw_search import Fixed, search
from jcw_search.options import SearchOptions

README = (Path(__file__).parents[1] / "README.md").read_text()


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_first_snippet_prints_a_front(capsys: pytest.CaptureFixture[str]) -> None:
    exec(snippets("python")[0], {})
    assert capsys.readouterr().out.count("layer1.0.conv1") > 5


def test_the_recipe_is_valid() -> None:
    (text,) = snippets("toml")
    options = parse(SearchOptions, tomllib.loads(text)["search"], Location(Path("README.md"), text, "search"))
    assert (options.algorithm, options.generations, options.max_latency_ms) == ("assisted", 12, 40)


def test_the_pipeline_asks_and_tells(capsys: pytest.CaptureFixture[str]) -> None:
    exec(snippets("python")[1], {})
    front, evaluated = map(int, capsys.readouterr().out.split(" of "))
    assert 5 < front < evaluated == 80


def test_the_plugin_selects(space: SearchSpace, evaluators: dict[str, Fixed]) -> None:
    scope: dict = {}
    exec(snippets("python")[2], scope)
    plugin = type("Plugin", (), {"jcw_register_selections": staticmethod(scope["jcw_register_selections"])})
    registry = Registry({"mine": plugin}, installed=False)
    result = search(
        space,
        evaluators,
        algorithm="plain",
        selection=registry.selections["accurate"],
        population=8,
        generations=5,
    )
    best = sorted(result.objectives[:, 1])[:8]
    assert sorted(result.objectives[result.population, 1]) == pytest.approx(best)
