import re
import tomllib
from pathlib import Path

import pytest

from jcw_core.options import Location, parse
from jcw_core.registry import Registry
from jcw_search import search
from jcw_search.options import SearchOptions

README = (Path(__file__).parents[1] / "README.md").read_text()


def snippets(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_first_snippet_prints_a_front(capsys):
    exec(snippets("python")[0], {})
    assert capsys.readouterr().out.count("layer1.0.conv1") > 5


def test_the_recipe_is_valid():
    (text,) = snippets("toml")
    options = parse(SearchOptions, tomllib.loads(text)["search"], Location(Path("README.md"), text, "search"))
    assert options.targets == 4


def test_the_plugin_selects(space, evaluators):
    scope: dict = {}
    exec(snippets("python")[1], scope)
    plugin = type("Plugin", (), {"jcw_register_selections": staticmethod(scope["jcw_register_selections"])})
    registry = Registry({"mine": plugin}, installed=False)
    result = search(space, evaluators, selection=registry.selections["accurate"], population=8, generations=5)
    best = sorted(result.objectives[:, 1])[:8]
    assert sorted(result.objectives[result.population, 1]) == pytest.approx(best)
