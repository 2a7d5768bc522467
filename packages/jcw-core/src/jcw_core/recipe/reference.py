"""``jcw recipe``: every table and key that a recipe may have, as commented TOML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any

from jcw_core.recipe.recipe import Catalogue, NetworkOptions, RunOptions, SpaceOptions, SplitOptions


def describe(registry: Catalogue) -> str:
    """A recipe with every key at its default, commented out; required keys show their type."""
    lines = [
        *_table("run", RunOptions),
        *_table("network", NetworkOptions),
        *_table("data", SplitOptions),
        *_plugins("data", registry.datasets),
        *_table("device", None),
        *_plugins("device", registry.devices),
        *_table("space", SpaceOptions),
    ]
    for stage in registry.stages.values():
        if stage.section and stage.options:
            lines += _table(stage.section, stage.options)
    return "\n".join(lines)


def _table(name: str, options: type[Any] | None) -> Iterator[str]:
    yield f"\n[{name}]"
    if options is not None:
        yield from _keys(options, name)


def _plugins(table: str, family: Any) -> Iterator[str]:
    for name, plugin in sorted(family.items()):
        yield f'# name = "{name}"'
        yield from _keys(plugin.options, table, indent="#     ")


def _keys(options: type[Any], table: str, indent: str = "# ") -> Iterator[str]:
    nested = []
    for one in fields(options):
        default = _default(one)
        if is_dataclass(default):
            nested.append((one.name, type(default)))
            continue
        shown = f"({_type(one)}, required)" if default is MISSING else _toml(default)
        help_text = one.metadata.get("help", "")
        yield f"{indent}{one.name} = {shown}".ljust(40) + (f"  # {help_text}" if help_text else "")
    for name, kind in nested:
        yield f"# [{table}.{name}]"
        yield from _keys(kind, f"{table}.{name}", indent)


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _type(one: Field[Any]) -> str:
    return one.type if isinstance(one.type, str) else getattr(one.type, "__name__", str(one.type))


def _toml(value: Any) -> str:
    if value is None:
        return "(none)"
    return json.dumps(str(value) if isinstance(value, Path) else value)
