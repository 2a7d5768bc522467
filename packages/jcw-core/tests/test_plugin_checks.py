"""What plugins register is held to its protocol: a wrong shape is reported by name, and takes nothing down."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import click
import pytest
from test_registry import FAMILIES, PARTS, member, named, nothing, plugin

from jcw_core.errors import JcwError, NetworkError, PluginError
from jcw_core.options import TABLES, option
from jcw_core.plugin_checks import build_network, check_member
from jcw_core.registry import Registry
from jcw_core.space.bounds import Bound


@dataclass(frozen=True)
class Inner:
    deep: float | None = option(None)


@dataclass(frozen=True)
class Whole:
    """Every type that a recipe can give."""

    needed: int
    path: Path | None = None
    words: tuple[str, ...] = ("a",)
    one: Literal["a", 2] = "a"
    inner: Inner = option(Inner())
    flag: bool = False
    tables: tuple[Inner, ...] = ()


@dataclass
class ListField:
    items: list[int] = field(default_factory=list)


@dataclass
class Unresolved:
    items: NoSuchName = 1  # type: ignore[name-defined]  # noqa: F821


@dataclass
class WrongDefault:
    size: int = object()  # type: ignore[assignment]


WRONG = (None, 5, "", "x", (5,), object(), [None], {"a": 1}, 1.5, Path("x"), int, ("",), ("../x",))
"""Values of which each is wrong for most attributes."""
FITTING = {
    "name": ("x",),
    "title": ("x",),
    "unit": ("", "x"),
    "order": (5, 1.5),
    "bounds": ("",),
    "options": (None,),
    "section": ("",),
    "reads": (("../x",),),
}
"""The few of them that are not, by attribute: an empty text is also a sequence without a Bound."""
METHODS = {"build", "open", "select", "measure", "export", "needs", "run", "data", "html"}


def cases() -> list[tuple[str, str, Any]]:
    """Each attribute of each family, with every wrong value."""
    return [
        (hook, key, value)
        for hook, parts in PARTS.items()
        for key in ("name", *parts)
        for value in WRONG
        if not any(value is good or value == good for good in FITTING.get(key, ()))
        and not (key in METHODS and callable(value))
        and not (key == "options" and value is None and hook != "jcw_register_stages")
    ]


def registry_of(hook: str, *members: object) -> Registry:
    plugins = {"bad": plugin(hook, lambda: list(members)), "good": plugin(hook, named("fine", hook=hook))}
    return Registry(plugins, installed=False)


@pytest.mark.parametrize("hook", PARTS)
def test_a_member_that_lacks_an_attribute_is_left_out_by_name(hook: str) -> None:
    for key in ("name", *PARTS[hook]):
        broken = member(hook, "bad-one")
        delattr(broken, key)
        registry = registry_of(hook, broken)
        assert list(getattr(registry, FAMILIES[hook][0])) == ["fine"], key
        assert repr(key) in registry.failures["bad"]
        assert key == "name" or "bad-one" in registry.failures["bad"]


@pytest.mark.parametrize(("hook", "key", "value"), cases())
def test_a_member_with_a_wrong_attribute_is_left_out_by_name(hook: str, key: str, value: Any) -> None:
    broken = member(hook, "bad-one")
    setattr(broken, key, value)
    registry = registry_of(hook, broken)
    assert list(getattr(registry, FAMILIES[hook][0])) == ["fine"]
    assert registry.failures["bad"].startswith(hook)
    assert key in registry.failures["bad"]


@pytest.mark.parametrize("value", [5, None, "run", object(), print, SimpleNamespace(name="x", main=print)])
def test_a_command_that_is_none(value: Any) -> None:
    registry = registry_of("jcw_register_commands", value)
    assert list(registry.commands) == ["fine"]
    assert "expected a click command" in registry.failures["bad"]
    assert "name is None" in _failure("jcw_register_commands", click.Command(None))


def _failure(hook: str, broken: object) -> str:
    registry = registry_of(hook, broken)
    assert list(getattr(registry, FAMILIES[hook][0])) == ["fine"]
    return registry.failures["bad"]


@pytest.mark.parametrize("options", [ListField, Unresolved, WrongDefault, Whole(1), int, 5])
@pytest.mark.parametrize("hook", ["jcw_register_devices", "jcw_register_datasets", "jcw_register_stages"])
def test_options_that_no_recipe_can_give(hook: str, options: Any) -> None:
    broken: Any = member(hook, "bad-one")
    broken.options, broken.section = options, "bad"
    assert "options is" in _failure(hook, broken)


def test_options_of_every_type() -> None:
    check_member("jcw_register_devices", SimpleNamespace(name="d", options=Whole, open=nothing))


@pytest.mark.parametrize("key", sorted(METHODS))
def test_classes_are_not_taken_for_their_instances(key: str) -> None:
    hook = next(hook for hook, parts in PARTS.items() if parts.get(key) is nothing)
    body = {"name": "bad-one", **PARTS[hook], key: lambda self: None}
    assert "register an instance of it" in _failure(hook, type("Bad", (), body))
    methods = {key: staticmethod(nothing) for key in METHODS & body.keys()}
    check_member(hook, type("Good", (), body | methods))
    check_member(hook, type("Good", (), body)())


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "a\x1b", "\udcff", "a\\b", "", "a.json"])
def test_names_of_stages_and_files_are_plain(name: str) -> None:
    stage: Any = member("jcw_register_stages", name)
    assert "name is" in _failure("jcw_register_stages", stage)
    stage = member("jcw_register_stages", "fine")
    stage.makes = (f"models/{name}",)
    if name not in ("a/b", "a.json"):
        assert "makes is" in _failure("jcw_register_stages", stage)
    exporter: Any = member("jcw_register_exporters", "fine")
    exporter.suffix = f".{name}"
    assert name == "a.json" or "suffix is" in _failure("jcw_register_exporters", exporter)


@pytest.mark.parametrize("table", TABLES)
def test_a_stage_that_claims_a_table_of_every_recipe(table: str) -> None:
    stage: Any = member("jcw_register_stages", "bad-one")
    stage.section, stage.options = table, Whole
    assert f"section is {table!r}" in _failure("jcw_register_stages", stage)


@pytest.mark.parametrize(("section", "options"), [("mine", None), ("", Whole)])
def test_a_section_and_its_options_go_together(section: str, options: Any) -> None:
    stage: Any = member("jcw_register_stages", "bad-one")
    stage.section, stage.options = section, options
    assert "give both or neither" in _failure("jcw_register_stages", stage)


@pytest.mark.parametrize("claim", [{"section": "mine", "options": Whole}, {"makes": ("a/mine",)}])
def test_two_stages_with_one_claim_are_named_with_their_plugins(claim: dict[str, Any]) -> None:
    stages = [SimpleNamespace(**vars(member("jcw_register_stages", name)) | claim) for name in ("a", "b")]
    plugins = {s.name + "-plugin": plugin("jcw_register_stages", lambda s=s: [s]) for s in stages}
    expected = r"two stages claim the .*mine\]?: 'a' of a-plugin and 'b' of b-plugin; uninstall one"
    with pytest.raises(PluginError, match=expected):
        _ = Registry(plugins, installed=False).stages


def test_a_plugin_may_be_wrong_in_several_ways() -> None:
    rng = random.Random(0)
    hooks = rng.sample(sorted(PARTS), 3)
    bad = SimpleNamespace(**{k: v for hook in hooks for k, v in vars(plugin(hook, lambda: [5])).items()})
    registry = Registry({"bad": bad}, installed=False)
    for hook in hooks:
        assert not getattr(registry, FAMILIES[hook][0])
    assert all(hook in registry.failures["bad"] for hook in hooks)


def _raise(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize("result", [5, None, "net", [], (Bound("a", 1, 1),)])
def test_a_backbone_that_builds_no_network_is_named(result: Any) -> None:
    backbone: Any = SimpleNamespace(name="odd", bounds=(), build=lambda **shape: result)
    with pytest.raises(PluginError, match=r"backbone 'odd' built .*expected a Network"):
        build_network(backbone, num_classes=2)


@pytest.mark.parametrize("error", [TypeError("no"), ZeroDivisionError(), KeyError(3)])
def test_a_backbone_that_fails_is_named(error: Exception) -> None:
    backbone: Any = SimpleNamespace(name="odd", bounds=(), build=lambda **shape: _raise(error))
    with pytest.raises(PluginError, match=rf"backbone 'odd' failed \({type(error).__name__}"):
        build_network(backbone)
    backbone.build = lambda **shape: _raise(NetworkError("too small"))
    with pytest.raises(JcwError, match=r"^too small$"):
        build_network(backbone)
