"""Options: frozen dataclasses that a table of a recipe is checked against."""

from __future__ import annotations

import math
import tomllib
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from jcw_core.errors import JcwError, RecipeError
from jcw_core.names import or_nearest

T = TypeVar("T")

TABLES = ("run", "network", "data", "device", "space")
"""Tables of every recipe; the others belong to stages."""


def option(
    default: Any = MISSING,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    help: str = "",
) -> Any:
    """A dataclass field with a closed range, or a lower end that it must be ``above``, and a line of help.

    Without ``default`` the key must be given. The range holds for numbers, and for each number of a tuple.
    """
    return field(default=default, metadata={"low": low, "high": high, "above": above, "help": help})


@dataclass(frozen=True, slots=True)
class Location:
    """Where a table stands, for errors.

    Args:
        path, text: the recipe's file and its content.
        table: dotted name, ``""`` for the recipe itself.
        index: which one, of an array of tables.
    """

    path: Path
    text: str = ""
    table: str = ""
    index: int = 0

    def inside(self, table: str, index: int = 0) -> Location:
        """The location of a table inside this one."""
        return Location(self.path, self.text, f"{self.table}.{table}" if self.table else table, index)

    def error(self, key: str, message: str, *, see: str | None = None) -> RecipeError:
        """An error that names file, line, table and key; ``see`` as in ``JcwError``."""
        line = self._line(key)
        where = f"{self.path}:{line}" if line else str(self.path)
        name = f"[{self.table}] {key}".rstrip() if self.table else key
        return RecipeError(": ".join(filter(None, (where, name, message))), see=see)

    def _line(self, key: str) -> int | None:
        """The line of ``key``, else of the table's header, else of the key that holds the table."""
        table, header, headers = "", None, 0
        for number, raw in enumerate(self.text.splitlines(), start=1):
            line = raw.split("#")[0].strip()
            if line.startswith("[") and line.endswith("]"):
                table = line.strip("[] ")
                headers += table == self.table
                if table == self.table and headers == self.index + 1:
                    header = number
            elif table == self.table and key == _key(line) and (not table or headers == self.index + 1):
                return number
        if header is None and self.table:
            outer, _, name = self.table.rpartition(".")
            return Location(self.path, self.text, outer)._line(name)
        return header


def _key(line: str) -> str | None:
    name, equals, _ = line.partition("=")
    return name.strip().strip("\"'") if equals else None


def parse(cls: type[T], table: Mapping[str, Any], where: Location) -> T:
    """Make an instance of the dataclass ``cls`` from a table.

    Paths are taken relative to the recipe's folder.

    Raises:
        RecipeError: a key that is unknown or missing, or a value of the wrong type or out of range.
    """
    assert is_dataclass(cls)
    known = {f.name: f for f in fields(cls)}
    for key in table:
        if key not in known:
            all_keys = f"known keys: {', '.join(known) or 'none'}"
            raise where.error(key, f"unknown key{or_nearest(key, known, all_keys)}")
    hints = get_type_hints(cls)
    values = {key: _checked(hints[key], table[key], known[key], key, where) for key in known if key in table}
    for key, one in known.items():
        if key not in values and one.default is MISSING and one.default_factory is MISSING:
            raise where.error(key, "is missing; give it a value")
    try:
        return cls(**values)
    except JcwError as error:
        raise where.error("", str(error)) from None


@dataclass(frozen=True, slots=True)
class Word:
    """A value of the command line that may be meant as it stands; only its key tells.

    Args:
        text: as it was given, e.g. ``"0x1234"``, which is a serial number where the key is for text.
        value: what TOML makes of it.
    """

    text: str
    value: Any


def assignment(text: str, flag: str, key: str = "KEY") -> tuple[str, Any]:
    """A ``KEY=VALUE`` of the command line; the value is read as TOML, or else taken as text.

    What TOML takes for anything but text, or for a table of further keys, is a ``Word``.

    Args:
        text: what was given.
        flag, key: how errors call the option and its key.

    Raises:
        RecipeError: there is no equals sign.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise RecipeError(f"{flag} {text!r}: expected {key}=VALUE")
    try:
        read = tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return name, value
    return name, read if isinstance(read, (str, dict)) else Word(value, read)


def _checked(hint: Any, value: Any, one: Field[Any], key: str, where: Location, index: int = 0) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        hint = next(a for a in arguments if a is not type(None))
        return _checked(hint, value, one, key, where)
    if isinstance(value, Word):
        value = value.text if hint in (str, Path) or value.text in arguments else value.value
    if origin is Literal:
        if value not in arguments:
            raise where.error(key, f"{value!r} is not one of {', '.join(map(repr, arguments))}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise where.error(key, f"expected a list, found {value!r}")
        return tuple(_checked(arguments[0], item, one, key, where, i) for i, item in enumerate(value))
    if is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise where.error(key, f"expected a table, found {value!r}")
        assert isinstance(hint, type)
        return parse(hint, value, where.inside(key, index))
    return _scalar(hint, value, one, key, where)


def _scalar(hint: Any, value: Any, one: Field[Any], key: str, where: Location) -> Any:
    if isinstance(value, str) and "\0" in value:  # which ends a text for all that is not Python
        raise where.error(key, f"{value!r} holds a NUL character; leave it out")
    if hint is Path and isinstance(value, str):
        return _resolved(value, key, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = _as_float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise where.error(key, f"expected {hint.__name__}, found {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise where.error(key, f"{value} is impossible; expected a finite number")
    if isinstance(value, (int, float)):
        low, high, above = (one.metadata.get(end) for end in ("low", "high", "above"))
        if above is not None and value <= above:
            raise where.error(key, f"{value} is impossible; expected more than {above}")
        if (low is not None and value < low) or (high is not None and value > high):
            bounds = f"at least {low}" if high is None else f"from {low} to {high}"
            raise where.error(key, f"{value} is impossible; expected {bounds}")
    return value


def _resolved(value: str, key: str, where: Location) -> Path:
    """The path that ``value`` stands for, from the recipe's folder."""
    try:
        return (where.path.parent / value).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # links in a circle, say
        raise where.error(key, f"{value!r} is no path ({error}); give another") from None


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
