"""The supernet's place taken by pruning after training: the stage's work, and estimates of architectures."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jcw_core.network.architecture import Architecture
from jcw_core.post_training.database import Database, build
from jcw_core.protocols import Run
from jcw_core.run.records import SUPERNET
from jcw_core.space.space import Population, SearchSpace
from jcw_core.supernet.calibration import calibrate
from jcw_core.supernet.distance import distance
from jcw_core.supernet.evaluation import score_tensors
from jcw_core.supernet.options import SupernetOptions
from jcw_core.training.batches import EVALUATED, FixedImages
from jcw_core.training.execution import BatchNorm, execute
from jcw_core.training.precision import computing, threads

Metric = Literal["error", "loss", "distance"]


def build_database(run: Run) -> None:
    """Collect what pruning needs, from the recipe's weights and its training images, and write it.

    Raises:
        JcwError: the recipe brings no weights.
    """
    if run.weights is None:
        raise run.recipe.where.inside("supernet").error(
            "mode", "post-training prunes a trained network; give network.weights, or a file that has them"
        )
    options = run.options(SupernetOptions)
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in run.weights.items()}
    with threads(run.recipe.run.threads), computing(options.arithmetic):
        database = build(
            run.network,
            tensors,
            [images for images, _ in calibration_images(run)],
            lambda done, total, layer: run.progress("supernet", "layer", done, total, layer),
        )
    database.save(run.path(SUPERNET))


def calibration_images(run: Run) -> FixedImages:
    """The training images from which statistics are collected, the same in every stage."""
    options = run.options(SupernetOptions)
    return FixedImages.drawn(
        run.dataset("train"), options.calibration_images, run.rng("calibration"), options.arithmetic
    )


class PostTrainingEvaluator:
    """An objective with the database and its images at hand.

    ``distance`` asks no labels: it is that of the outputs from the dense network's, see ``jcw_core.supernet.distance``.
    """

    def __init__(self, run: Run, metric: Metric) -> None:
        self._run, self._metric = run, metric
        self._arithmetic = run.options(SupernetOptions).arithmetic
        self._database = Database.load(run.path(SUPERNET), run.network)
        self._calibration = calibration_images(run)
        self._validation = self._held_out("validation")

    def _held_out(self, split: str) -> FixedImages:
        dataset = self._run.dataset(split)
        return FixedImages(dataset, np.arange(len(dataset)), EVALUATED, self._arithmetic)

    def begin_generation(self, population: Population, generation: int) -> bool:
        """Nothing is trained, so values hold."""
        return False

    def evaluate(self, space: SearchSpace, population: Population) -> NDArray[np.float64]:
        """One value per architecture, (n,)."""
        return self._values(space, population, self._validation)

    def reevaluate(self, space: SearchSpace, population: Population) -> NDArray[np.float64]:
        """``evaluate`` on held-out images that the search has not seen."""
        return self._values(space, population, self._held_out("reevaluation"))

    def _values(
        self, space: SearchSpace, population: Population, batches: FixedImages
    ) -> NDArray[np.float64]:
        with threads(self._run.recipe.run.threads), computing(self._arithmetic), torch.inference_mode():
            dense = self._outputs(batches) if self._metric == "distance" else []
            return np.array([self._value(space.architecture(row), batches, dense) for row in population])

    def _outputs(self, batches: FixedImages) -> list[Tensor]:
        """What the dense network makes of each batch."""
        network, tensors = self._database.network, self._database.tensors
        norm = BatchNorm({name: tensors[name] for name in network.buffer_shapes})
        return [execute(network, tensors, images, norm).float() for images, _ in batches]

    def _value(self, architecture: Architecture, batches: FixedImages, dense: list[Tensor]) -> float:
        network, tensors = self._database.network, self._database.weights(architecture)
        norm = BatchNorm(calibrate(network, tensors, (images for images, _ in self._calibration)))
        if self._metric == "distance":
            outputs = (execute(network, tensors, images, norm).float() for images, _ in batches)
            return distance(network, dense, outputs)
        score = score_tensors(network, tensors, norm, batches)
        return score.error if self._metric == "error" else score.loss


def pruned_weights(run: Run, architecture: Architecture) -> dict[str, NDArray[np.float32]]:
    """The weights of an architecture, with statistics of their own, by the names of its smaller network.

    Raises:
        FormatError: the database is missing or damaged.
    """
    options, database = run.options(SupernetOptions), Database.load(run.path(SUPERNET), run.network)
    tensors = database.weights(architecture)
    with computing(options.arithmetic):
        statistics = calibrate(run.network, tensors, (images for images, _ in calibration_images(run)))
    return {name: tensor.float().numpy() for name, tensor in {**tensors, **statistics}.items()}
