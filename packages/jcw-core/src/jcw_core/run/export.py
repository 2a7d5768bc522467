"""The stage ``export``: every trained model in every file format that the recipe asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jcw_core.options import option
from jcw_core.run.records import EXPORTS, MODELS, ChosenModel, write_exports

if TYPE_CHECKING:
    from jcw_core.protocols import Run


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

    def needs(self, run: Run) -> tuple[str, ...]:
        """The trained models.

        Raises:
            PluginError: a format that is not installed.
        """
        for name in run.options(ExportOptions).formats:
            _ = run.registry.exporters[name]
        return (MODELS,)

    def run(self, run: Run) -> Sequence[str]:
        """Export; returns the files."""
        from jcw_core.formats.safetensors_file import load_model

        exporters = [run.registry.exporters[name] for name in run.options(ExportOptions).formats]
        models = ChosenModel.read_all(run.path(MODELS))
        files: dict[str, dict[str, str]] = {}
        for done, chosen in enumerate(models, start=1):
            model = load_model(run.path(chosen.weights))
            files[chosen.id] = {e.name: f"models/{chosen.id}/model{e.suffix}" for e in exporters}
            for exporter in exporters:
                exporter.export(model, run.path(files[chosen.id][exporter.name]))
            run.progress(self.name, "model", done, len(models), chosen.id)
        write_exports(run.path(EXPORTS), files)
        return [name for exported in files.values() for name in exported.values()]
