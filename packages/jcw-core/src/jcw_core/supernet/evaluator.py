"""Estimates the error of architectures with the supernet's weights."""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from jcw_core.protocols import Run
from jcw_core.space.space import Population, SearchSpace
from jcw_core.supernet.evaluation import score_subnetwork
from jcw_core.supernet.options import SupernetOptions
from jcw_core.supernet.sharing import load_supernet, train_on_population
from jcw_core.training.batches import FixedImages, TrainingImages
from jcw_core.training.module import Slimmable
from jcw_core.training.precision import threads

BATCH = 128
"""Images at a time in calibration and evaluation; larger batches fall out of the cache."""


class SupernetEvaluator:
    """An objective with the supernet and its images at hand.

    Architectures are scored side by side, one thread each: that scales better than several threads
    in one small network, and the values do not depend on the number of threads.
    """

    def __init__(self, run: Run, metric: Literal["error", "loss"]) -> None:
        self._run = run
        self._metric = metric
        self._options = run.options(SupernetOptions)
        self._module = Slimmable(run.network, run.rng("supernet", "weights"))
        load_supernet(run, self._module)
        train, validation = run.dataset("train"), run.dataset("validation")
        order = run.rng("calibration").permutation(len(train))[: self._options.calibration_images]
        arithmetic = self._options.arithmetic
        self._calibration = FixedImages(train, order, BATCH, arithmetic)
        self._validation = FixedImages(validation, np.arange(len(validation)), BATCH, arithmetic)

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
        for old in folder.glob("supernet-*.safetensors"):
            if old != path:
                old.unlink()
        images = TrainingImages(run.dataset("train"), options.augmentation, options.arithmetic)
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
        count = max(1, min(self._run.recipe.run.threads, len(population)))
        with (
            threads(1),
            ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool,
        ):
            return np.array(list(pool.map(lambda row: self._score(space, row), population)), dtype=np.float64)

    def _score(self, space: SearchSpace, row: NDArray[np.float64]) -> float:
        score = score_subnetwork(
            self._module,
            space.architecture(row),
            self._calibration,
            self._validation,
            self._options.arithmetic,
        )
        return score.error if self._metric == "error" else score.loss


def open_evaluator(run: Run, metric: Literal["error", "loss"]) -> SupernetEvaluator:
    """Load the supernet and the images. Raises ``FormatError``, ``DataError``."""
    return SupernetEvaluator(run, metric)
