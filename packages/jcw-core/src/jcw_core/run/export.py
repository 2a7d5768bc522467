"""The stage ``export``: every trained model in every file format that the recipe asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from jcw_core.datasets.split import normalise
from jcw_core.errors import RecipeError
from jcw_core.network.image_input import ImageInput
from jcw_core.network.normalisation import with_normalisation
from jcw_core.network.outputs import makes_logits
from jcw_core.options import option
from jcw_core.protocols import (
    Calibration,
    CalibrationMethod,
    ComputesHalf,
    Precision,
    Products,
    Quantizes,
    Resized,
    StoresWeights,
    WeightType,
)
from jcw_core.run.classes import classifies
from jcw_core.run.records import EXPORTS, MODELS, ChosenModel, write_exports

if TYPE_CHECKING:
    from jcw_core.protocols import Exporter, Run

_THIS_MACHINE = "host"
"""The device."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """``[export]``: the files that are handed over."""

    formats: tuple[str, ...] = option(("jcw", "safetensors"), help="names of registered exporters")
    weights: Literal["auto", WeightType] = option(
        "auto",
        help="what files store weights as, in formats that leave a choice: float16 halves a model.jcw, which computes as before; "
        "auto is float16 where precision is, else float32",
    )
    precision: Precision = option(
        "float32",
        help="what the files compute with, in formats that leave a choice: int8 is faster where windows are larger than a pixel, "
        "float16 on ARM and x86-64 processors with FP16",
    )
    calibration_images: int = option(
        256, low=1, high=100_000, help="training images, without labels, by which numbers of int8 are chosen"
    )
    calibration: CalibrationMethod = option(
        "mse",
        help="the range of activations in int8: mse, nearest to their values; percentile, all but one in ten thousand; minmax, all",
    )
    calibration_error: float = option(
        0.05,
        above=0.0,
        help="most that int8 may change the outputs by, as a share of their squares; layers that change them most stay in floats",
    )
    products: Literal["auto", Products] = option(
        "auto",
        help="what the processor sums up at once of whole numbers, by which layers of int8 are chosen: bytes (VNNI, ARM's dot "
        "products), pairs (AVX2 alone) or none (Cortex-A72); auto asks this machine for the device host, else it is bytes",
    )
    normalise: bool = option(
        False, help="the files take pixels from 0 to 255 as they are, and normalise them themselves"
    )


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
            RecipeError: none of the formats stores such weights, or computes so.
        """
        _exporters(run)
        return (MODELS,)

    def run(self, run: Run) -> Sequence[str]:
        """Export; returns the files."""
        from jcw_core.formats.safetensors_file import load_model

        exporters = _computing(run, _exporters(run))
        models, images = ChosenModel.read_all(run.path(MODELS)), image_input(run)
        files: dict[str, dict[str, str]] = {}
        for done, chosen in enumerate(models, start=1):
            model = replace(load_model(run.path(chosen.weights)), images=images)
            if run.options(ExportOptions).normalise:
                model = with_normalisation(model)
            files[chosen.id] = {e.name: f"models/{chosen.id}/model{e.suffix}" for e in exporters}
            for exporter in exporters:
                exporter.export(model, run.path(files[chosen.id][exporter.name]))
            run.progress(self.name, "model", done, len(models), chosen.id)
        write_exports(run.path(EXPORTS), files)
        return [name for exported in files.values() for name in exported.values()]


def _exporters(run: Run) -> list[Exporter]:
    """What writes the files, in the order of the recipe."""
    options = run.options(ExportOptions)
    exporters = [run.registry.exporters[name] for name in options.formats]
    if options.precision != "float32" and not any(_computes(e, options.precision) for e in exporters):
        raise RecipeError(
            f"export.precision is {options.precision!r}, but none of the formats {', '.join(options.formats)} computes so; "
            f"add 'jcw' to export.formats or leave export.precision out"
        )
    if options.weights == "auto":
        return exporters
    if options.weights != "float32" and not any(isinstance(e, StoresWeights) for e in exporters):
        raise RecipeError(
            f"export.weights is {options.weights!r}, but none of the formats {', '.join(options.formats)} stores such weights; "
            f"add 'jcw' to export.formats or leave export.weights out"
        )
    return [e.storing(options.weights) if isinstance(e, StoresWeights) else e for e in exporters]


def _computes(exporter: Exporter, precision: Precision) -> bool:
    return isinstance(exporter, Quantizes) if precision == "int8" else isinstance(exporter, ComputesHalf)


def _computing(run: Run, exporters: Sequence[Exporter]) -> Sequence[Exporter]:
    """Those that write files which compute as the recipe asks for."""
    options = run.options(ExportOptions)
    if options.precision == "float32":
        return exporters
    if options.precision == "float16":
        return [e.in_half_precision() if isinstance(e, ComputesHalf) else e for e in exporters]
    data = run.dataset("training")
    drawn = np.random.default_rng(run.recipe.run.seed).permutation(len(data))[: options.calibration_images]
    pixels = data.images(np.sort(drawn))
    images = pixels.astype(np.float32) if options.normalise else normalise(pixels, data)
    how = Calibration(options.calibration, options.calibration_error, _products(run, options))
    return [e.calibrated(images, how) if isinstance(e, Quantizes) else e for e in exporters]


def _products(run: Run, options: ExportOptions) -> Products | None:
    """None for those of this machine."""
    if options.products != "auto":
        return options.products
    device = run.recipe.device
    return None if device is not None and device.name == _THIS_MACHINE else "bytes"


def image_input(run: Run) -> ImageInput:
    """How image files become the network's input, by the images that it is made with; classes where it knows such."""
    data = run.dataset("training")
    resize = data.resize if isinstance(data, Resized) else None
    mean, std = (tuple(map(float, values)) for values in (data.mean, data.std))
    labelled = classifies(run.network, data) and bool((data.labels >= 0).all())
    classes = tuple(data.classes) if labelled or makes_logits(run.network) else ()
    return ImageInput(mean, std, resize or data.image_shape[1], classes, run.input_name)
