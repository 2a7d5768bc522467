"""Every table and key of a recipe, where the page ``recipe`` has room for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from installed import TABLES
from sphinx.application import Sphinx

from jcw_core.recipe.reference import Key

ROOM = "<!-- Here the site has every table and key, from what `jcw recipe` prints. -->"
KINDS = {
    "str": "text",
    "int": "integer",
    "float": "number",
    "bool": "true or false",
    "Path": "path",
    "Bound": "table",
}


def setup(app: Sphinx) -> dict[str, bool]:
    """Fill the page."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True}


def _fill(app: Sphinx, name: str, content: list[str]) -> None:
    if name == "recipe":
        before, room, after = content[0].partition(ROOM)
        assert room, "docs/recipe.md has no room for the keys"
        content[0] = before + "\n".join(markdown()) + after


def markdown() -> Iterator[str]:
    """A section for each table, and for what each plugin adds to it."""
    seen: set[str] = set()
    for table in TABLES:
        yield f'### `name = "{table.plugin}"`\n' if table.plugin else f"## `[{table.name}]`\n"
        for key in table.keys:
            name = f"{table.name}.{key.name}"
            yield from _entry(name, key, first=name not in seen)
            seen.add(name)


def _entry(name: str, key: Key, first: bool) -> Iterator[str]:
    """One key; several plugins may have one of a name, of which the first is found by it."""
    default = (
        "must be given" if key.default is None else "none" if key.default == "(none)" else f"`{key.default}`"
    )
    yield f"```{{confval}} {name}"
    yield f":type: {json.dumps(kind(key.type))}"
    yield f":default: {json.dumps(default)}"
    if not first:
        yield ":no-index:"
    yield f"\n{key.help}\n```\n"


def kind(annotation: str) -> str:
    """What TOML calls a type of Python: ``list of integer`` for ``tuple[int, ...] | None``."""
    annotation = annotation.removesuffix(" | None")
    if words := re.fullmatch(r"Literal\[(.*)\]", annotation):
        return " or ".join(f"`{word}`" for word in words[1].replace("'", '"').split(", "))
    if listed := re.fullmatch(r"tuple\[(\w+), \.\.\.\]", annotation):
        return f"list of {KINDS[listed[1]]}"
    return KINDS.get(annotation, "text")
