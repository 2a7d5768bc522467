"""``recipe.json``: which recipe a run is of, so that a command can work on the run's folder alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from jcw_core.errors import FormatError, JcwError
from jcw_core.files import read_json, write_json
from jcw_core.options import assignment
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory

ORIGIN = "recipe.json"
_FORMAT = "jcw-recipe/1"


def remember_recipe(directory: RunDirectory, recipe: Path, settings: Sequence[str] = ()) -> None:
    """Note in a run's directory where its recipe lies, relative to it, and what was set besides.

    Args:
        directory: of the run.
        recipe: its file.
        settings: ``TABLE.KEY=VALUE``, as ``jcw run --set`` takes them.
    """
    path = directory.path(ORIGIN)
    found = os.path.relpath(recipe.resolve(), directory.root.resolve())
    document = {"format": _FORMAT, "recipe": found, "set": list(settings)}
    with suppress(JcwError):  # absent or damaged: written anew
        if read_json(path) == document:
            return  # a finished run that is run again keeps all its files as they are
    write_json(path, document)


def settings_of(root: Path) -> list[str]:
    """What was set besides the recipe of the run in ``root``, ``TABLE.KEY=VALUE`` each; nothing where that is not known."""
    with suppress(JcwError, TypeError):
        return list(map(str, read_json(root / ORIGIN, kind=_FORMAT).get("set", ())))
    return []


def open_run(registry: Registry, root: Path, recipe: Path | None = None) -> Context:
    """The run in the folder ``root``.

    Args:
        registry: its plugins.
        root: the run's folder.
        recipe: in place of the one that the run remembers.

    Raises:
        FormatError: the folder holds no run, or its recipe is not there any more.
        RecipeError: the recipe is not good any more.
    """
    settings: list[str] = []
    if recipe is None:
        recipe, settings = _origin(root)
    read = load_recipe(recipe, registry, dict(assignment(text, "set") for text in settings))
    return Context(read, registry, RunDirectory(root))


def _origin(root: Path) -> tuple[Path, list[str]]:
    path = root / ORIGIN
    document = read_json(path, kind=_FORMAT)
    name, settings = document.get("recipe"), document.get("set")
    if not isinstance(name, str) or not isinstance(settings, list):
        raise FormatError(f"{path}: holds no recipe; give it with --recipe")
    recipe = (root / name).resolve()
    if not recipe.is_file():
        raise FormatError(f"{path}: the recipe {recipe} is not there any more; give it with --recipe")
    return recipe, list(map(str, settings))
