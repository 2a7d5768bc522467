"""The ``evaluate`` stage: the error of every exported file on the test images, as the engine runs it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jcw_core.datasets.split import normalise
from jcw_core.errors import FormatError
from jcw_core.protocols import Dataset, Run
from jcw_core.run import records
from jcw_kernels.program import Program, load

_BATCH = 256


class EvaluateStage:
    """Loads each ``model.jcw`` and classifies the whole test split."""

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
        results = {}
        for done, (name, files) in enumerate(exports.items()):
            context.progress(self.name, "model", done, len(exports), name)
            if "jcw" not in files:
                raise FormatError(f"model {name!r} was not exported as 'jcw'; add it to export.formats")
            program = load(context.path(files["jcw"]), threads=context.recipe.run.threads)
            results[name] = records.ModelScore(error_rate(program, data), len(data))
        context.progress(self.name, "model", len(exports), len(exports))
        records.Evaluation(results).write(context.path(records.EVALUATION))
        return ()


def error_rate(program: Program, data: Dataset) -> float:
    """Share of the images of ``data`` that ``program`` classifies wrongly."""
    wrong = 0
    for start in range(0, len(data), _BATCH):
        indices = np.arange(start, min(start + _BATCH, len(data)))
        logits = program.run(normalise(data.images(indices), data))
        wrong += int(np.count_nonzero(logits.argmax(axis=1) != data.labels[indices]))
    return wrong / len(data)
