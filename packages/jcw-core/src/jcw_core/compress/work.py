"""The road of ``jcw compress``: a recipe of its own, the stages of every run, and the model that is handed over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from jcw_core.compress.recipe_text import Window, recipe_text
from jcw_core.compress.request import Request
from jcw_core.datasets.arrangement import Arrangement
from jcw_core.datasets.image_source import open_source
from jcw_core.datasets.images import ImagesOptions, arrangement
from jcw_core.errors import PluginError, RecipeError
from jcw_core.files import atomic
from jcw_core.options import Location, assignment, parse
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.checks import check
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.origin import remember_recipe
from jcw_core.run.pipeline import StageEvent, plan, run
from jcw_core.run.source import opened

RECIPE = "recipe.toml"
_GENERATIONS = 7
_LOWEST = 0.75
"""Share of the smallest budget from which the search looks: a network that needs less could keep more."""
_RESERVE = 0.94
"""Share of a budget for which a second model is made, for where the first is slower than predicted."""
_LATENCY = "latency"
_BY_OPTIONS = {f"network.{key}": f"--{key}" for key in ("outputs", "shape", "weights")} | {
    f"network.{key}": "it as MODEL" for key in ("backbone", "file", "module")
}
"""Settings that would come too late, and what says them."""


@dataclass(frozen=True)
class Work:
    """A request on its way.

    Args:
        request: what was asked.
        registry: installed plugins.
        settings: ``TABLE.KEY=VALUE`` that replace what the recipe says.
        notify: told when stages begin and end.
        say: takes notes for the user.
    """

    request: Request
    registry: Registry
    settings: Sequence[str]
    notify: Callable[[StageEvent], None]
    say: Callable[[str], None]

    def run(self) -> Context:
        """Profile, then look where the budgets lie, and do the rest.

        Raises:
            JcwError: from any stage; what was finished stays.
        """
        pictures, device = self._pictures(), self._device()
        window = Window(None, None, self.request.budgets_ms, _GENERATIONS)
        text = recipe_text(self.request, device, pictures, window)
        context = self._context(text)
        for note in check(context, plan(context)):
            self.say(note)
        if not self.request.is_file and self.request.weights is None:
            self.say(f"without --weights, {self.request.model} is taken with the weights that it returns")
        run(context, "profile", self._kept(text, self._profiled))
        text = recipe_text(self.request, device, pictures, self._window(context))
        context = self._context(text, context)
        run(context, "report", self._kept(text, self.notify))
        return context

    def _device(self) -> dict[str, Any]:
        """The recipe's table; a device that is not there is the command line's mistake."""
        name, precision = self.request.device, self.request.precision
        try:
            options = self.registry.devices[name].options
        except PluginError as error:
            raise RecipeError(f"--device: {error}") from None
        choice = precision != "float32" and any(field.name == "precision" for field in fields(options))
        return {"name": name, "precision": precision if choice else None}

    def _pictures(self) -> Arrangement:
        """Which images are for what; nothing is decoded yet."""
        settings = dict(assignment(text, "--set", "TABLE.KEY") for text in self.settings)
        given = {key: settings[f"data.{key}"] for key in ("test_share", "most") if f"data.{key}" in settings}
        table = {"path": str(self.request.images.absolute()), **given}
        options = parse(ImagesOptions, table, Location(Path("--set"), table="data"))
        return arrangement(open_source(options.path), options)

    def _context(self, text: str, before: Context | None = None) -> Context:
        """The run as a recipe says; images that are open stay so."""
        directory = RunDirectory(self.request.out)
        settings = dict(assignment(text, "--set", "TABLE.KEY") for text in self.settings)
        for key in settings:
            if key in _BY_OPTIONS:
                raise RecipeError(f"--set {key}: the network is read before; give {_BY_OPTIONS[key]}")
        recipe = load_recipe(directory.path(RECIPE), self.registry, settings, text)
        context = Context(recipe, self.registry, directory, opened(self.request.network, recipe.network))
        if before is not None:
            context.share_images(before)
        return context

    def _kept(self, text: str, notify: Callable[[StageEvent], None]) -> Callable[[StageEvent], None]:
        """``notify``, which first writes the recipe into the run's folder when a stage begins.

        Not before: what is refused, or finds the run at work, leaves the recipe that is there.
        """
        directory = RunDirectory(self.request.out)
        path = directory.path(RECIPE)

        def told(event: StageEvent) -> None:
            if event.state == "started":
                with atomic(path) as temporary:
                    temporary.write_text(text, encoding="utf-8")
                remember_recipe(directory, path, self.settings)
            notify(event)

        return told

    def _profiled(self, event: StageEvent) -> None:
        if event.state != "skipped":  # it will be told of in the second part
            self.notify(replace(event, ahead=None))  # what comes then is not known yet

    def _window(self, context: Context) -> Window:
        """Where to search, by what the table predicts."""
        objective = self.registry.objectives[_LATENCY].open(context)
        ends = np.stack([context.space.low, context.space.maximum])
        fastest, dense = (float(value) for value in objective.evaluate(context.space, ends))
        asked = self.request.budgets_ms
        self.say(f"the dense network is predicted to take {dense:.4g} ms, the smallest {fastest:.4g} ms")
        tight = [budget for budget in asked if budget < dense]
        if not tight:
            return Window(None, None, asked, 1)
        reserves = [_RESERVE * budget for budget in tight if _RESERVE * budget > fastest]
        budgets = sorted({*tight, *(round(reserve, 4) for reserve in reserves)})
        if reserves:
            spare = ", ".join(f"{reserve:.4g}" for reserve in reserves)
            self.say(
                f"models for {spare} ms are made as well, in case those asked for are measured to be slower than predicted"
            )
        low = _LOWEST * min(tight)
        return Window(low if low > fastest else None, max(max(tight), fastest), budgets, _GENERATIONS)


def check_budgets(budgets_ms: Sequence[float]) -> tuple[float, ...]:
    """Budgets in order, each once. Raises ``RecipeError`` for none, or one that is not above 0."""
    if not budgets_ms or not all(0 < budget < float("inf") for budget in budgets_ms):
        raise RecipeError(f"--budget-ms: {list(budgets_ms)}: give milliseconds above 0")
    return tuple(sorted(set(budgets_ms)))
