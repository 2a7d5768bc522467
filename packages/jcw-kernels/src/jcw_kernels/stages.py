"""The ``evaluate`` stage: the error of every exported file on the test images, as the engine runs it; or its distance from
the dense network, where that has no classes of the data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jcw_core.datasets.split import normalise
from jcw_core.errors import FormatError
from jcw_core.network.model import Model
from jcw_core.protocols import Dataset, Run
from jcw_core.run import records
from jcw_core.run.classes import classifies
from jcw_kernels.program import Program, compile_model, load

_BATCH = 256
_LEAST = 1e-12
"""Of the squares of outputs, where all of them are zero."""


class EvaluateStage:
    """Loads each ``model.jcw`` and runs the whole test split."""

    name = "evaluate"
    section = ""
    options = None
    reads = ("network", "data")
    makes = (records.EVALUATION,)

    def needs(self, run: Run) -> tuple[str, ...]:
        """The exported files."""
        return (records.EXPORTS,)

    def plan(self, run: Run) -> str:
        """The images that every model runs."""
        return f"{len(run.dataset('test'))} images a model"

    def run(self, context: Run) -> Sequence[str]:
        """Write ``evaluation.json``.

        Raises:
            FormatError: a model has no file in the ``jcw`` format, or it is damaged.
        """
        exports = records.read_exports(context.path(records.EXPORTS))
        data = context.dataset("test")
        dense = _dense(context, data)
        results = {}
        for done, (name, files) in enumerate(exports.items()):
            context.progress(self.name, "model", done, len(exports), name)
            if "jcw" not in files:
                raise FormatError(f"model {name!r} was not exported as 'jcw'; add it to export.formats")
            program = load(context.path(files["jcw"]), threads=context.recipe.run.threads)
            error = None if dense else error_rate(program, data)
            results[name] = records.ModelScore(
                error, len(data), distance(program, dense, data) if dense else None
            )
        context.progress(self.name, "model", len(exports), len(exports))
        records.Evaluation(results).write(context.path(records.EVALUATION))
        return ()


def _dense(context: Run, data: Dataset) -> Program | None:
    """The network as the recipe brings it; None where it has the classes of the data."""
    if classifies(context.network, data) or context.weights is None:
        return None
    return compile_model(Model(context.network, context.weights), threads=context.recipe.run.threads)


def distance(program: Program, dense: Program, data: Dataset) -> float:
    """Squared difference of the outputs for the images of ``data``, as a share of the squares of ``dense``'s."""
    errors = squares = 0.0
    for start in range(0, len(data), _BATCH):
        images = normalise(data.images(np.arange(start, min(start + _BATCH, len(data)))), data)
        wanted, found = (which.run(images).astype(np.float64) for which in (dense, program))
        errors += float(np.square(found - wanted).sum())
        squares += float(np.square(wanted).sum())
    return errors / max(squares, _LEAST)


def error_rate(program: Program, data: Dataset) -> float:
    """Share of the images of ``data`` that ``program`` classifies wrongly."""
    wrong = 0
    for start in range(0, len(data), _BATCH):
        indices = np.arange(start, min(start + _BATCH, len(data)))
        logits = program.run(normalise(data.images(indices), data))
        wrong += int(np.count_nonzero(logits.argmax(axis=1) != data.labels[indices]))
    return wrong / len(data)
