"""Every table and key that a recipe may have: as commented TOML for ``jcw recipe``, as data for the documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from jcw_core.recipe.recipe import Catalogue, NetworkOptions, RunOptions, SpaceOptions, SplitOptions

NONE = "(none)"
"""How the default of a key is shown that has none and may be left out."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a table.

    Args:
        name: as a recipe has it.
        type: its annotation.
        default: as TOML, ``NONE`` without one; None where the key must be given.
        help: a line on what it is for.
    """

    name: str
    type: str
    default: str | None
    help: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table, or the keys that one plugin adds to it.

    Args:
        name: dotted, ``"retrain.admm"``.
        plugin: for which ``name`` in the table the keys are; ``""`` where they are for all.
        keys: in the order of their declaration.
    """

    name: str
    plugin: str
    keys: tuple[Key, ...]


def tables(registry: Catalogue) -> Iterator[Table]:
    """All of them; those of tables inside another follow it, as do those of its plugins."""
    yield from _tables("run", RunOptions)
    yield from _tables("network", NetworkOptions)
    yield from _tables("data", SplitOptions)
    for name, dataset in sorted(registry.datasets.items()):
        yield from _tables("data", dataset.options, name)
    yield Table("device", "", ())
    for name, device in sorted(registry.devices.items()):
        yield from _tables("device", device.options, name)
    yield from _tables("space", SpaceOptions)
    for stage in registry.stages.values():
        if stage.section and stage.options:
            yield from _tables(stage.section, stage.options)


def _tables(name: str, options: type[Any], plugin: str = "") -> Iterator[Table]:
    nested = [(one.name, type(default)) for one in fields(options) if is_dataclass(default := _default(one))]
    inside = {key for key, _ in nested}
    yield Table(name, plugin, tuple(_key(one) for one in fields(options) if one.name not in inside))
    for key, kind in nested:
        yield from _tables(f"{name}.{key}", kind, plugin)


def _key(one: Field[Any]) -> Key:
    default = _default(one)
    shown = None if default is MISSING else _toml(default)
    return Key(one.name, _type(one), shown, one.metadata.get("help", ""))


def describe(registry: Catalogue) -> str:
    """A recipe with every key at its default, commented out; required keys show their type."""
    return "\n".join(line for table in tables(registry) for line in _lines(table))


def rows(registry: Catalogue) -> Iterator[dict[str, Any]]:
    """Each key for a program, with the ``plugin`` of its table that takes it, ``""`` where all do.

    ``default`` is None where there is none.
    """
    for table in tables(registry):
        for key in table.keys:
            default = None if key.default in (None, NONE) else json.loads(key.default)
            yield {
                "table": table.name,
                "plugin": table.plugin,
                "key": key.name,
                "type": key.type,
                "required": key.default is None,
                "default": default,
                "help": key.help,
            }


def _lines(table: Table) -> Iterator[str]:
    if "." in table.name:
        yield f"# [{table.name}]"
    else:
        yield f'# name = "{table.plugin}"' if table.plugin else f"\n[{table.name}]"
    for key in table.keys:
        default = f"({key.type}, required)" if key.default is None else key.default
        line = f"{'#     ' if table.plugin else '# '}{key.name} = {default}".ljust(40)
        yield line + (f"  # {key.help}" if key.help else "")


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _type(one: Field[Any]) -> str:
    return one.type if isinstance(one.type, str) else getattr(one.type, "__name__", str(one.type))


def _toml(value: Any) -> str:
    if value is None:
        return NONE
    return json.dumps(str(value) if isinstance(value, Path) else value)
