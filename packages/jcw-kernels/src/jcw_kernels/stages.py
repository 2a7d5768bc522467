"""The ``evaluate`` stage: the error of every exported file on the test images, as the engine runs it; or its distance from
the dense network, where that has no classes of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jcw_core.datasets.split import normalise
from jcw_core.errors import FormatError
from jcw_core.logs import logger
from jcw_core.network.model import Model
from jcw_core.network.outputs import makes_logits
from jcw_core.protocols import Dataset, Run
from jcw_core.run import records
from jcw_core.run.classes import classifies
from jcw_kernels.program import Program, compile_model, load

_log = logger(__name__)

_BATCH = 256
_LEAST = 1e-12
"""Of the squares of outputs, where all of them are zero."""


class EvaluateStage:
    """Loads each ``model.jcw`` and runs the whole test split.

    Where that has no labels, models are scored against the baseline: the share of images that they see otherwise. Where
    the network makes no classes, or not those of the data, it is the distance of their outputs from its own.
    """

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
        score = _score(context, exports, data)
        results = {}
        for done, name in enumerate(exports):
            context.progress(self.name, "model", done, len(exports), name)
            results[name] = score(_load(context, name, exports))
            _log.info("model %s on %d images: %r", name, len(data), results[name])
        context.progress(self.name, "model", len(exports), len(exports))
        against: Literal["labels", "dense"] = "labels" if _labelled(data) else "dense"
        records.Evaluation(results, against).write(context.path(records.EVALUATION))
        return ()


def _load(context: Run, name: str, exports: Mapping[str, Mapping[str, str]]) -> Program:
    """The model ``name``. Raises ``FormatError`` where it was not exported for the engine."""
    files = exports.get(name, {})
    if "jcw" not in files:
        raise FormatError(f"model {name!r} was not exported as 'jcw'; add it to export.formats")
    return load(context.path(files["jcw"]), threads=context.recipe.run.threads)


def _labelled(data: Dataset) -> bool:
    return bool((data.labels >= 0).all())


def _score(
    context: Run, exports: Mapping[str, Mapping[str, str]], data: Dataset
) -> Callable[[Program], records.ModelScore]:
    """What is asked of every model."""
    network = context.network
    # Without labels, many outputs may be boxes or pixels as well as classes.
    by_class = classifies(network, data) and (_labelled(data) or makes_logits(network))
    if not by_class and context.weights is not None:
        dense = compile_model(Model(network, context.weights), threads=context.recipe.run.threads)
        return lambda program: records.ModelScore(None, len(data), distance(program, dense, data))
    truth = data.labels if _labelled(data) else classes_of(_load(context, records.BASELINE, exports), data)
    return lambda program: records.ModelScore(float(np.mean(classes_of(program, data) != truth)), len(data))


def distance(program: Program, dense: Program, data: Dataset) -> float:
    """Squared difference of the outputs for the images of ``data``, as a share of the squares of ``dense``'s."""
    errors = squares = 0.0
    for pixels in _pixels(data):
        wanted, found = (
            which.run(normalise(pixels, which.images or data)).astype(np.float64)
            for which in (dense, program)
        )
        errors += float(np.square(found - wanted).sum())
        squares += float(np.square(wanted).sum())
    return errors / max(squares, _LEAST)


def error_rate(program: Program, data: Dataset) -> float:
    """Share of the images of ``data`` that ``program`` classifies wrongly."""
    return float(np.mean(classes_of(program, data) != data.labels))


def classes_of(program: Program, data: Dataset) -> NDArray[np.int64]:
    """The class that ``program`` gives to each image of ``data``, (n,)."""
    normalised = program.images or data
    return np.concatenate(
        [program.run(normalise(pixels, normalised)).argmax(axis=1) for pixels in _pixels(data)]
    )


def _pixels(data: Dataset) -> Iterator[NDArray[np.uint8]]:
    """All images of ``data`` in their order, as many at a time as fit in memory."""
    for start in range(0, len(data), _BATCH):
        yield data.images(np.arange(start, min(start + _BATCH, len(data))))
