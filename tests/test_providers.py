"""Whatever a package of this checkout brings, an error about its absence says what to install."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from jcw_core import providers
from jcw_core.registry import Registry

PACKAGES = sorted((Path(__file__).parents[1] / "packages").iterdir())
FAMILIES = (
    "backbones",
    "devices",
    "objectives",
    "selections",
    "importances",
    "datasets",
    "exporters",
    "stages",
)


def packages() -> Iterator[tuple[str, Registry]]:
    """Each package by the name of its distribution, alone."""
    for folder in PACKAGES:
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        points = project["entry-points"]["jcw"]
        plugins = {name: import_module(module) for name, module in points.items()}
        yield project["name"], Registry(plugins, installed=False)


def provider(distribution: str, member: Any) -> str:
    extra = "[supernet]" if type(member).__module__.startswith("jcw_core.supernet") else ""
    return distribution + extra


def test_every_built_in_name_says_what_to_install() -> None:
    expected = {}
    for distribution, registry in packages():
        for family in FAMILIES:
            for name, member in getattr(registry, family).items():
                names = {name, getattr(member, "section", "")} - {""}
                expected |= dict.fromkeys(names, provider(distribution, member))
        assert not registry.failures
    # Whoever reads the error has jcw-core.
    assert {name: package for name, package in expected.items() if package != "jcw-core"} == providers.PLUGINS


def test_every_command_says_what_to_install() -> None:
    expected = {name: package for package, registry in packages() for name in registry.commands}
    assert {
        name: package for name, package in expected.items() if package != "jcw-core"
    } == providers.COMMANDS
