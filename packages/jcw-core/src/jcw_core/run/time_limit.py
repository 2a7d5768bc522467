"""``TimeLimit``: settings of a recipe cut down so that it takes about as long as it may."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jcw_core.errors import JcwError
from jcw_core.files import read_json, write_json
from jcw_core.protocols import Ending, Scaling, Stage
from jcw_core.recipe.recipe import canonical, load_recipe
from jcw_core.run.context import Context
from jcw_core.run.pipeline import finished, plan

_FORMAT = "jcw-time/1"
_NAME = ".state/time.json"
_ROUNDS, _HURRY = 12, 0.7
"""Times that settings are cut, and by how much more where they were rounded to what they had been."""


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """What became of a recipe that has a ``[run] time``.

    Args:
        context: the run with its settings cut.
        settings: what was cut, by ``"table.key"``; nothing where the recipe is short enough as it is.
        seconds: about how long trainings and search take here with them; more than was asked for where no less can be done.
        recipe: fingerprint of the recipe before.
        ends: seconds at most of stages that are still to run and end by themselves, by name.
    """

    context: Context
    settings: Mapping[str, int]
    seconds: float
    recipe: str
    ends: Mapping[str, float]

    def keep(self) -> None:
        """Note in the run's directory what was found, so that the run goes on with it however fast the machine is by then."""
        document = {"recipe": self.recipe, "seconds": self.seconds, "set": dict(self.settings)}
        write_json(self.context.path(_NAME), {"format": _FORMAT, **document})


def cut_to_time(context: Context, until: str, given: Mapping[str, Any]) -> TimeLimit:
    """Settings with which stages take as long as ``[run] time`` allows: those that the run keeps, or as measured now.

    Args:
        context: the run as its recipe has it.
        until: its last stage.
        given: values by ``"table.key"`` that were set by hand, which stay.

    Raises:
        RecipeError: what was cut does not go with what stays.
    """
    key, stages = _key(context), plan(context, until)
    kept, ends = _kept(context, key), _ends(context, stages)
    if kept is not None:
        settings, seconds = kept
        return TimeLimit(with_settings(context, {**given, **settings}), settings, seconds, key, ends)
    return _cut(context, [stage for stage in stages if isinstance(stage, Scaling)], given, key, ends)


def _kept(context: Context, key: str) -> tuple[Mapping[str, int], float] | None:
    """Settings and seconds that an earlier command found for the same recipe."""
    try:
        document = read_json(context.path(_NAME), kind=_FORMAT)
        settings = {str(name): int(value) for name, value in dict(document["set"]).items()}
        return (settings, float(document["seconds"])) if document["recipe"] == key else None
    except (JcwError, KeyError, TypeError, ValueError):
        return None


def _ends(context: Context, stages: Sequence[Stage]) -> Mapping[str, float]:
    """Seconds at most of stages that end by themselves and are not finished."""
    done = finished(context, stages)
    found = {
        stage.name: stage.ends_after(context)
        for stage in stages
        if isinstance(stage, Ending) and stage not in done
    }
    return {name: seconds for name, seconds in found.items() if seconds is not None}


def _cut(
    context: Context, stages: Sequence[Scaling], given: Mapping[str, Any], key: str, ends: Mapping[str, float]
) -> TimeLimit:
    whole, settings = context.recipe.run.seconds, dict[str, int]()
    assert whole is not None
    wanted = max(0.0, whole - sum(ends.values()))
    hurry = 1.0
    for _ in range(_ROUNDS):
        seconds = sum(stage.seconds(context) for stage in stages)
        if seconds <= wanted:
            break
        scaled = (stage.scaled(context, hurry * wanted / seconds) for stage in stages)
        found = settings | {name: value for one in scaled for name, value in one.items() if name not in given}
        if found == settings:
            hurry *= _HURRY
        else:
            settings, context = found, with_settings(context, {**given, **found})
    return TimeLimit(context, settings, sum(stage.seconds(context) for stage in stages), key, ends)


def with_settings(context: Context, settings: Mapping[str, Any]) -> Context:
    """The same run with other settings."""
    recipe = load_recipe(context.recipe.path, context.registry, settings)
    changed = Context(recipe, context.registry, context.directory, ranks=context.ranks)
    changed.share_images(context)
    return changed


def _key(context: Context) -> str:
    """Fingerprint of what times depend on: all of the recipe but its device, and where the run lies."""
    recipe = context.recipe
    tables = {name: recipe.table(name) for name in ("network", "data", "space", *recipe.stages)}
    tables["run"] = replace(recipe.run, name="", accelerator="auto")
    return hashlib.sha256(canonical(tables).encode()).hexdigest()
