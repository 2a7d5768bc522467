"""Options: every type is read, and every mistake is one error that names the key."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from jcw_core.errors import RecipeError
from jcw_core.options import Location, assignment, option, parse


@dataclass(frozen=True, slots=True)
class Inner:
    rate: float = option(0.5, low=0, high=1)


@dataclass(frozen=True, slots=True)
class Options:
    path: Path = option()
    count: int = option(3, low=1)
    share: float = option(0.5, low=0, high=1)
    kind: Literal["small", "large", "1"] = option("small")
    flag: bool = option(False)
    label: str | None = option(None)
    sizes: tuple[int, ...] = option((1, 2), low=1)
    rate: float | None = option(None)
    budgets: tuple[float, ...] = option((), low=0)
    inner: Inner = option(Inner())
    inners: tuple[Inner, ...] = option(())

    def __post_init__(self) -> None:
        if self.count == 13:
            raise RecipeError("13 brings bad luck")


WHERE = Location(Path("/folder/recipe.toml"))


def test_every_type_is_read() -> None:
    table = {
        "path": "data/file", "count": 4, "share": 1, "kind": "large", "flag": True, "label": "x", "sizes": [3],
        "inner": {"rate": 0.25}, "inners": [{"rate": 0}, {}],
        "rate": -2.5, "budgets": [1, 2.5],
    }  # fmt: skip
    found = parse(Options, table, WHERE)
    assert found == Options(
        Path("/folder/data/file"), 4, 1.0, "large", True, "x", (3,), -2.5, (1.0, 2.5),
        Inner(0.25), (Inner(0.0), Inner(0.5)),
    )  # fmt: skip
    assert isinstance(found.share, float)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cuont": 1}, "cuont: unknown key; did you mean 'count'"),
        ({"zzz": 1}, "zzz: unknown key; known keys: path, count"),
        ({"path": None}, "path: expected Path, found None"),
        ({"path": 3}, "path: expected Path, found 3"),
        ({"count": 1.5}, "count: expected int, found 1.5"),
        ({"count": True}, "count: expected int, found True"),
        ({"count": "4"}, "count: expected int, found '4'"),
        ({"count": 0}, "count: 0 is impossible; expected at least 1"),
        ({"share": 1.01}, "share: 1.01 is impossible; expected from 0 to 1"),
        ({"share": False}, "share: expected float, found False"),
        ({"kind": "huge"}, "kind: 'huge' is not one of 'small', 'large', '1'"),
        ({"kind": ["small"]}, "kind: .* is not one of"),
        ({"flag": 1}, "flag: expected bool, found 1"),
        ({"label": 1}, "label: expected str, found 1"),
        ({"sizes": 3}, "sizes: expected a list, found 3"),
        ({"sizes": [3, 0]}, "sizes: 0 is impossible"),
        ({"sizes": [3, "4"]}, "sizes: expected int, found '4'"),
        ({"inner": 3}, "inner: expected a table, found 3"),
        ({"inner": {"rate": 2}}, r"\[inner\] rate: 2.0 is impossible"),
        ({"inners": [{"rat": 1}]}, r"\[inners\] rat: unknown key; did you mean 'rate'"),
        ({"count": 13}, "13 brings bad luck"),
    ],
)
def test_each_mistake_names_its_key(change: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as error:
        parse(Options, {"path": "p", **change}, WHERE)
    assert "/folder/recipe.toml" in str(error.value)


NOT_FINITE = ["nan", "inf", "-inf", "9" * 400, "-" + "9" * 400]


@pytest.mark.parametrize("text", NOT_FINITE, ids=lambda text: text[:4])
@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("share = {}", "share"),
        ("rate = {}", "rate"),
        ("budgets = [1.0, {}]", "budgets"),
        ("inner = {{ rate = {} }}", r"\[inner\] rate"),
    ],
)
def test_a_number_is_finite(text: str, table: str, name: str) -> None:
    with pytest.raises(RecipeError, match=f"{name}: (nan|-?inf) is impossible; expected a finite number"):
        parse(Options, {"path": "p", **tomllib.loads(table.format(text))}, WHERE)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("label=98862734", "98862734"), ("label=0x1234", "0x1234"), ("label=007", "007"), ("label=1_000", "1_000"),
        ("label=true", "true"), ("label=1979-05-27", "1979-05-27"), ("label=nan", "nan"), ("label=[1]", "[1]"),
        ("label=7 # b", "7 # b"), ("label=abc", "abc"), ("label=a=b", "a=b"), ("label=", ""), ('label="98"', "98"),
        ("path=1234", Path("/folder/1234")), ("kind=large", "large"), ("kind=1", "1"), ("count=0x10", 16),
        ("count=007", None), ("count=x", None), ("share=1", 1.0), ("flag=true", True), ("sizes=[3, 4]", (3, 4)),
        ("inner={rate = 1}", Inner(1.0)), ("inners=[{rate = 1}]", (Inner(1.0),)), ("inner=3", None),
    ],
)  # fmt: skip
def test_values_of_the_command_line_are_read_by_the_type_of_their_key(given: str, expected: object) -> None:
    """None stands for a value that its key does not take."""
    key, value = assignment(given, "--option")
    if expected is None:
        with pytest.raises(RecipeError, match=rf"{key}: expected .*, found '?{given.partition('=')[2]}"):
            parse(Options, {"path": "p", key: value}, WHERE)
    else:
        assert getattr(parse(Options, {"path": "p", key: value}, WHERE), key) == expected


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 100_000], ids=["long", "deep"])
def test_values_that_toml_cannot_read_are_text(value: str) -> None:
    assert assignment(f"label={value}", "--option") == ("label", value)


def test_an_option_without_an_equals_sign_is_refused() -> None:
    with pytest.raises(RecipeError, match="--option 'serial': expected KEY=VALUE"):
        assignment("serial", "--option")


def test_a_required_key() -> None:
    with pytest.raises(RecipeError, match="path: is missing"):
        parse(Options, {}, WHERE)
