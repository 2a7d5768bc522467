"""The stages ``retrain`` and ``export``. What needs torch is imported when they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jcw_core.options import option
from jcw_core.run.records import EXPORTS, FRONT, MODELS, SUPERNET, ChosenModel, write_exports
from jcw_retrain.budgets import check_budgets, files_read
from jcw_retrain.options import RetrainOptions, phases

if TYPE_CHECKING:
    from jcw_core.recipe.recipe import Recipe
    from jcw_core.registry import Registry
    from jcw_core.run.context import Context


class RetrainStage:
    """Trains the baseline and the models chosen from the front."""

    name = "retrain"
    section = "retrain"
    options = RetrainOptions
    reads = ("run", "network", "data", "space")
    makes = (MODELS,)

    def needs(self, recipe: Recipe, registry: Registry) -> tuple[str, ...]:
        """The front, and the supernet when weights are inherited."""
        inherits = recipe.options(RetrainOptions).init == "supernet"
        return (FRONT, SUPERNET) if inherits else (FRONT,)

    def check_reads(self, run: Context) -> tuple[str, ...]:
        """What tells whether budgets can be met."""
        return files_read(run)

    def check(self, run: Context) -> Sequence[str]:
        """Notes on budgets. Raises ``RecipeError`` for one that no network of the space meets."""
        return check_budgets(run)

    def plan(self, run: Context) -> str:
        """How many models at most, and the epochs of each."""
        options = run.options(RetrainOptions)
        found = phases(options, run.recipe.network.backbone)
        parts = " + ".join(str(phase.epochs) for phase in (found.pretrain, found.admm, found.finetune))
        models = len(options.budgets_ms) or options.models
        return f"the baseline and at most {models} models, {found.epochs} epochs each: {parts}"

    def run(self, context: Context) -> Sequence[str]:
        """Train; returns the files of weights."""
        from jcw_core.training.extra import implementation

        files: list[str] = implementation("jcw_retrain.jobs").retrain(context)
        return files


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """``[export]``: the files that are handed over."""

    formats: tuple[str, ...] = option(("jcw", "safetensors"), help="names of registered exporters")


class ExportStage:
    """Writes every trained model in every format, as ``models/ID/model.SUFFIX``."""

    name = "export"
    section = "export"
    options = ExportOptions
    reads = ("network", "data")
    makes = (EXPORTS,)

    def needs(self, recipe: Recipe, registry: Registry) -> tuple[str, ...]:
        """The trained models.

        Raises:
            PluginError: a format that is not installed.
        """
        for name in recipe.options(ExportOptions).formats:
            _ = registry.exporters[name]
        return (MODELS,)

    def run(self, context: Context) -> Sequence[str]:
        """Export; returns the files."""
        from jcw_core.formats.safetensors_file import load_model

        exporters = [context.registry.exporters[name] for name in context.options(ExportOptions).formats]
        models = ChosenModel.read_all(context.path(MODELS))
        files: dict[str, dict[str, str]] = {}
        for done, chosen in enumerate(models, start=1):
            model = load_model(context.path(chosen.weights))
            files[chosen.id] = {e.name: f"models/{chosen.id}/model{e.suffix}" for e in exporters}
            for exporter in exporters:
                exporter.export(model, context.path(files[chosen.id][exporter.name]))
            context.progress(self.name, "model", done, len(models), chosen.id)
        write_exports(context.path(EXPORTS), files)
        return [name for exported in files.values() for name in exported.values()]
