"""Recipes: every mistake is one error that names the key and its line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jcw_core.errors import JcwError, PluginError, RecipeError
from jcw_core.hookspecs import hookimpl
from jcw_core.options import Word, option
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.space.bounds import Bound


@dataclass(frozen=True, slots=True)
class Rate:
    rate: float = option(0.5, low=0, high=1)


@dataclass(frozen=True, slots=True)
class Images:
    path: Path = option()


class Data:
    name = "data"
    options = Images

    def open(self, split, options):
        raise NotImplementedError

    @hookimpl
    def jcw_register_datasets(self):
        return [self]


class Any:
    name = "any"
    bounds = ()

    def build(self, **shape):
        raise NotImplementedError

    @hookimpl
    def jcw_register_backbones(self):
        return [self]


class SearchStage:
    name = section = "search"
    options = Rate
    reads = makes = ()

    def needs(self, *_):
        return ()

    def run(self, context):
        return ()

    @hookimpl
    def jcw_register_stages(self):
        return [self]


GOOD = """\
# A comment with [brackets] and key = value.
[run]
seed = 7

[network]
backbone = "any"   # [not a table]

[data]
name = "data"
path = "images"
holdout = 5

[[space.bounds]]
layers = "a"
width = 0.5
density = 0.5

[[space.bounds]]
layers = "b"

width = 0.25
density = 0.125
"""


def load(tmp_path: Path, text: str, overrides: dict[str, object] | None = None, encoding: str = "utf-8"):
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding)
    registry = Registry({"data": Data(), "search": SearchStage(), "any": Any()}, installed=False)
    return load_recipe(path, registry, overrides)


def test_a_good_recipe(tmp_path: Path) -> None:
    recipe = load(tmp_path, GOOD)
    assert recipe.run.seed == 7
    assert recipe.data.options.path == tmp_path / "images"
    assert recipe.split.holdout == 5
    assert recipe.device is None
    assert recipe.space.bounds == (Bound("a", 0.5, 0.5), Bound("b", 0.25, 0.125))
    assert recipe.options(Rate) == Rate(0.5)
    assert recipe.table("search") == Rate(0.5)
    assert (recipe.table("search.rate"), recipe.table("run.seed")) == (0.5, 7)
    for name, said in (("search.size", "the recipe key search.size"), ("speed.rate", r"table \[speed\]")):
        with pytest.raises(PluginError, match=said):
            recipe.table(name)
    assert set(recipe.table("data")) == {"data", "split"}


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD, encoding="utf-8-sig").run.seed == 7
    with pytest.raises(RecipeError, match=r"recipe\.toml:3: .*sed: unknown"):
        load(tmp_path, GOOD.replace("seed", "sed"), encoding="utf-8-sig")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("seed = 7", "sed = 7", 3, r"\[run\] sed: unknown key; did you mean 'seed'"),
        ("seed = 7", "seed = -7", 3, r"\[run\] seed: -7 is impossible"),
        ("seed = 7", "seed = 2.5", 3, r"\[run\] seed: expected int"),
        ('backbone = "any"', "", 5, r"\[network\]: give either backbone, file or module"),
        (
            'backbone = "any"',
            'backbone = "vgg"',
            6,
            r"\[network\] backbone: unknown backbone 'vgg'; there is: any",
        ),
        ("[run]", "[retrain]", 2, r"\[retrain\]: unknown table; install jcw-retrain; known are run"),
        ('name = "data"', 'name = "dat"', 9, r"\[data\] name: unknown dataset 'dat'; there is: data"),
        (
            'name = "data"',
            "name = 3",
            9,
            r"\[data\] name: expected the name of a plugin, found 3; there is: data",
        ),
        ('path = "images"', "path = 1", 10, r"\[data\] path: expected Path"),
        ('path = "images"', "", 8, r"\[data\] path: is missing"),
        ("holdout = 5", "holdout = 0", 11, r"\[data\] holdout: 0 is impossible"),
        ("width = 0.5", "width = 1.5", 13, r"\[space.bounds\]: bound for 'a': width = 1.5 is impossible"),
        ("density = 0.125", "density = 1.125", 18, r"\[space.bounds\]: bound for 'b': density = 1.125"),
        ("width = 0.25", 'width = "x"', 21, r"\[space.bounds\] width: expected float, found 'x'"),
        ("width = 0.25", "wdith = 1", 21, r"\[space.bounds\] wdith: unknown key; did you mean 'width'"),
        ("[run]", "[rnu]", 2, r"rnu\]?: unknown table; known are run, network, data, device, space, search"),
        ("[run]", "run = 3\n[search]", 2, "run: expected a table, found 3"),
    ],
)
def test_each_mistake_names_its_line(tmp_path: Path, old: str, new: str, line: int, message: str) -> None:
    assert old in GOOD
    with pytest.raises(RecipeError, match=rf"recipe\.toml:{line}: \[?{message}".replace(r"\[?\[", r"\[")):
        load(tmp_path, GOOD.replace(old, new, 1))


def test_an_inline_table_is_found_by_the_key_that_holds_it(tmp_path: Path) -> None:
    text = GOOD.split("[[")[0] + '[space]\nstep = 4\nbounds = [{layers = "a", width = 0.5, density = 2}]\n'
    with pytest.raises(RecipeError, match=r"toml:15: \[space.bounds\]: bound for 'a': density = 2"):
        load(tmp_path, text)


@pytest.mark.parametrize(
    "content",
    [
        b"[run",
        b"a = 1\na = 2",
        b"\xff\xfe\x00",
        b"x = 99999999999999999999999999e9999e",
        b"a = " + b"9" * 5000,
        b"a = " + b"[" * 100_000,
    ],
    ids=lambda content: repr(content[:12]),
)
def test_text_that_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    with pytest.raises(RecipeError, match=r"recipe\.toml: not a TOML file"):
        load_recipe(path, Registry(installed=False))


def test_a_recipe_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"none\.toml: no such file"):
        load_recipe(tmp_path / "none.toml", Registry(installed=False))
    with pytest.raises(RecipeError, match=r"a folder, expected a recipe.*jcw show"):
        load_recipe(tmp_path, Registry(installed=False))


def test_overrides_replace_and_are_checked(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD, {"run.seed": 8, "search.rate": 1}).options(Rate) == Rate(1.0)
    digits = {"run.seed": Word("8", 8), "run.name": Word("007", 7), "data.path": Word("12", 12)}
    run, data = (load(tmp_path, GOOD, digits).table(name) for name in ("run", "data"))
    assert (run.seed, run.name, data["data"].options.path) == (8, "007", tmp_path / "12")
    with pytest.raises(RecipeError, match=r"unknown dataset '1\.0'"):
        load(tmp_path, GOOD, {"data.name": Word("1.0", 1.0)})
    with pytest.raises(RecipeError, match="seed: expected int, found 'x'"):
        load(tmp_path, GOOD, {"run.seed": "x"})
    with pytest.raises(RecipeError, match=r"cannot set 'seed'; expected TABLE\.KEY"):
        load(tmp_path, GOOD, {"seed": 1})


_toml = st.recursive(
    st.sampled_from(["1", "-1", "0.5", "nan", "inf", "true", '""', '"any"', "1979-05-27", "[]", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda xs: f"[{', '.join(xs)}]")
        | inner.map(lambda x: f"{{ layers = {x} }}")
    ),
    max_leaves=4,
)


@given(st.sampled_from([line for line in GOOD.splitlines() if " = " in line and line[0] != "#"]), _toml)
def test_any_value_in_any_place(tmp_path_factory: pytest.TempPathFactory, line: str, value: str) -> None:
    text = GOOD.replace(line, f"{line.split(' = ')[0]} = {value}", 1)
    try:
        load(tmp_path_factory.mktemp("recipe"), text)
    except JcwError as error:
        assert "recipe.toml:" in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
