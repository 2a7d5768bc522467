"""Estimates the error of architectures with the supernet's weights."""

from __future__ import annotations

import zlib
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jcw_core.protocols import Run
from jcw_core.space.space import Population, SearchSpace
from jcw_core.supernet.evaluation import score_subnetwork
from jcw_core.supernet.options import SupernetOptions
from jcw_core.supernet.sharing import load_supernet, train_on_population
from jcw_core.training.accelerator import arithmetic_of, lanes
from jcw_core.training.batches import EVALUATED, FixedImages, TrainingImages
from jcw_core.training.module import Slimmable
from jcw_core.training.precision import map_in_threads, threads


class SupernetEvaluator:
    """An objective with the supernet and its images at hand.

    Architectures are scored side by side, one thread each, or one after another on a GPU: that scales better than
    several threads in one small network, and the values do not depend on the number of threads.
    """

    def __init__(self, run: Run, metric: Literal["error", "loss"]) -> None:
        self._run = run
        self._metric = metric
        self._options = run.options(SupernetOptions)
        self._arithmetic = arithmetic_of(run, self._options.arithmetic)
        self._module = Slimmable(run.network, run.rng("supernet", "weights")).to(self._arithmetic.device)
        load_supernet(run, self._module)
        count, rng = self._options.calibration_images, run.rng("calibration")
        self._calibration = FixedImages.drawn(run.dataset("train"), count, rng, self._arithmetic)
        self._validation = self._held_out("validation")

    def _held_out(self, split: str) -> FixedImages:
        dataset = self._run.dataset(split)
        return FixedImages(dataset, np.arange(len(dataset)), EVALUATED, self._arithmetic)

    def begin_generation(self, population: Population, generation: int) -> bool:
        """Train on the population when the mode is ``per-generation``; old values then do not hold.

        Each generation starts from the weights of ``supernet.safetensors``, so that a search which
        was killed needs nothing but the population to go on.
        """
        if self._options.mode == "continuous" or self._options.epochs == self._options.shared_epochs:
            return False
        run, options = self._run, self._options
        load_supernet(run, self._module)
        folder = run.scratch("search")
        path = folder / f"supernet-{generation}-{zlib.crc32(population.tobytes()):08x}.safetensors"
        for old in folder.glob("supernet-*.safetensors") if run.ranks.is_first else ():
            if old != path:
                old.unlink()
        images = TrainingImages(
            run.dataset("train"), options.augmentation, self._arithmetic, run.recipe.run.workers
        )
        with threads(run.recipe.run.threads):
            train_on_population(
                run, self._module, images, population, generation, path,
                lambda epoch: run.progress(
                    "search", "supernet epoch", epoch.done, epoch.total, f"generation {generation}, loss {epoch.loss:.3f}"
                ),
            )  # fmt: skip
        return True

    def evaluate(self, space: SearchSpace, population: Population) -> NDArray[np.float64]:
        """One value per architecture, (n,); the share of errors or the mean loss."""
        return self._values(space, population, self._validation)

    def reevaluate(self, space: SearchSpace, population: Population) -> NDArray[np.float64]:
        """``evaluate`` on held-out images that the search has not seen, so that no value chose its architecture.

        As for ``evaluate``, weights are those of the last ``begin_generation``.
        """
        return self._values(space, population, self._held_out("reevaluation"))

    def _values(
        self, space: SearchSpace, population: Population, batches: FixedImages
    ) -> NDArray[np.float64]:
        def value(row: NDArray[np.float64]) -> float:
            architecture, arithmetic = space.architecture(row), self._arithmetic
            score = score_subnetwork(self._module, architecture, self._calibration, batches, arithmetic)
            return score.error if self._metric == "error" else score.loss

        found = map_in_threads(value, population, lanes(self._arithmetic, self._run.recipe.run.threads))
        return np.array(found, dtype=np.float64)


def open_evaluator(run: Run, metric: Literal["error", "loss"]) -> SupernetEvaluator:
    """Load the supernet and the images. Raises ``FormatError``, ``DataError``."""
    return SupernetEvaluator(run, metric)
