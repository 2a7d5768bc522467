"""The ``evaluate`` stage: the error of every exported file on the test images, as the engine runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jcw_core.datasets.split import normalise
from jcw_core.errors import FormatError
from jcw_core.protocols import Dataset, Run
from jcw_core.run import records
from jcw_kernels.program import Program, load

_BATCH = 256


class EvaluateStage:
    """Loads each ``model.jcw`` and classifies the whole test split.

    Where that has no labels, models are scored against the baseline: the share of images that they see otherwise.
    """

    name = "evaluate"
    section = ""
    options = None
    reads = ("data",)
    makes = (records.EVALUATION,)

    def needs(self, run: Run) -> tuple[str, ...]:
        """The exported files."""
        return (records.EXPORTS,)

    def plan(self, run: Run) -> str:
        """The images that every model classifies."""
        return f"{len(run.dataset('test'))} images a model"

    def run(self, context: Run) -> Sequence[str]:
        """Write ``evaluation.json``.

        Raises:
            FormatError: a model has no file in the ``jcw`` format, or it is damaged.
        """
        exports = records.read_exports(context.path(records.EXPORTS))
        data = context.dataset("test")
        labelled = bool((data.labels >= 0).all())
        truth = data.labels if labelled else classes_of(_load(context, records.BASELINE, exports), data)
        results = {}
        for done, name in enumerate(exports):
            context.progress(self.name, "model", done, len(exports), name)
            found = classes_of(_load(context, name, exports), data)
            results[name] = records.ModelScore(float(np.mean(found != truth)), len(data))
        context.progress(self.name, "model", len(exports), len(exports))
        against: Literal["labels", "dense"] = "labels" if labelled else "dense"
        records.Evaluation(results, against).write(context.path(records.EVALUATION))
        return ()


def _load(context: Run, name: str, exports: Mapping[str, Mapping[str, str]]) -> Program:
    """The model ``name``. Raises ``FormatError`` where it was not exported for the engine."""
    files = exports.get(name, {})
    if "jcw" not in files:
        raise FormatError(f"model {name!r} was not exported as 'jcw'; add it to export.formats")
    return load(context.path(files["jcw"]), threads=context.recipe.run.threads)


def error_rate(program: Program, data: Dataset) -> float:
    """Share of the images of ``data`` that ``program`` classifies wrongly."""
    return float(np.mean(classes_of(program, data) != data.labels))


def classes_of(program: Program, data: Dataset) -> NDArray[np.int64]:
    """The class that ``program`` gives to each image of ``data``, (n,)."""
    parts, normalised = [], program.images or data
    for start in range(0, len(data), _BATCH):
        indices = np.arange(start, min(start + _BATCH, len(data)))
        parts.append(program.run(normalise(data.images(indices), normalised)).argmax(axis=1))
    return np.concatenate(parts)
