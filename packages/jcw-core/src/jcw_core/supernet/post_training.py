"""The supernet's place taken by pruning after training: the stage's work, and estimates of architectures."""

from __future__ import annotations

from math import prod
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jcw_core.network.architecture import Architecture
from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network
from jcw_core.post_training.database import Database, build, ordered
from jcw_core.post_training.statistics import is_large
from jcw_core.protocols import Run
from jcw_core.run.records import SUPERNET
from jcw_core.space.space import Population, SearchSpace, is_prunable
from jcw_core.supernet.calibration import calibrate
from jcw_core.supernet.distance import distance
from jcw_core.supernet.evaluation import score_tensors
from jcw_core.supernet.options import SupernetOptions
from jcw_core.training.batches import EVALUATED, FixedImages
from jcw_core.training.execution import BatchNorm, execute
from jcw_core.training.precision import computing, map_in_threads, threads

Metric = Literal["error", "loss", "distance"]


def build_database(run: Run) -> None:
    """Collect what pruning needs, from the recipe's weights and its training images, and write it.

    Layers that an interrupted run has ended are not done again.

    Raises:
        JcwError: the recipe brings no weights.
    """
    options, tensors = run.options(SupernetOptions), _brought(run, "mode", "post-training prunes")
    images = calibration_images(run)
    _tell_of_few(run, sum(len(batch) for batch, _ in images))
    _tell_of_large(run)
    with threads(run.recipe.run.threads), computing(options.arithmetic):
        database = build(
            run.network,
            tensors,
            [batch for batch, _ in images],
            run.registry.importances[options.importance],
            options.rearrange,
            lambda done, total, layer: run.progress("supernet", "layer", done, total, layer),
            run.scratch("supernet"),
        )
    database.save(run.path(SUPERNET))


def ordered_weights(run: Run) -> dict[str, NDArray[np.float32]]:
    """The weights that the recipe brings, with the most important channels of each group first, by state-dict name.

    Raises:
        JcwError: it brings none.
    """
    options, tensors = run.options(SupernetOptions), _brought(run, "init", "'pretrained' begins with")
    with threads(run.recipe.run.threads), computing(options.arithmetic):
        images = [images for images, _ in calibration_images(run)]
        found, _ = ordered(run.network, tensors, images, run.registry.importances[options.importance])
    return {name: tensor.numpy() for name, tensor in found.items()}


def _brought(run: Run, key: str, what: str) -> dict[str, Tensor]:
    """The recipe's weights by state-dict name, which ``key`` of ``[supernet]`` cannot do without."""
    if run.weights is None:
        raise run.recipe.where.inside("supernet").error(
            key, f"{what} a trained network; give network.weights, or a file that has them"
        )
    return {name: torch.from_numpy(np.array(array)) for name, array in run.weights.items()}


def _tell_of_few(run: Run, images: int) -> None:
    """Say where layers read less than their statistics have unknowns: those are regularised, and tell little."""
    network = run.network
    few = [
        node.name
        for node in network
        if is_prunable(network, node)
        and not is_large(network, node.name)
        and images * prod(network.shapes[node.name][1:])
        < prod(network.parameter_shapes[f"{node.name}.weight"][1:])
    ]
    if few:
        run.progress(
            "supernet", "images", 0, 0,
            f"{images} images are few for {', '.join(few[:3])}{', ...' if len(few) > 3 else ''}: their statistics are "
            "regularised; more images make better weights",
        )  # fmt: skip


def _tell_of_large(run: Run) -> None:
    """Say which layers are too large for the surgeon."""
    network = run.network
    large = [node.name for node in network if is_prunable(network, node) and is_large(network, node.name)]
    if large:
        run.progress(
            "supernet", "layers", 0, 0,
            f"the cheaper mask for {', '.join(large)}: too large for what inputs have in common, so each is judged alone "
            "and weights are not fitted anew",
        )  # fmt: skip


def calibration_images(run: Run, most: int | None = None) -> FixedImages:
    """The training images from which statistics are collected, the same in every stage; the first ``most`` of them."""
    options = run.options(SupernetOptions)
    count = options.calibration_images if most is None else min(most, options.calibration_images)
    return FixedImages.drawn(run.dataset("train"), count, run.rng("calibration"), options.arithmetic)


class PostTrainingEvaluator:
    """An objective with the database and its images at hand.

    ``distance`` asks no labels: it is that of the outputs from the dense network's, see ``jcw_core.supernet.distance``.
    """

    def __init__(self, run: Run, metric: Metric) -> None:
        self._run, self._metric = run, metric
        self._arithmetic = run.options(SupernetOptions).arithmetic
        self._database = Database.load(run.path(SUPERNET), run.network)
        self._calibration = calibration_images(run, run.options(SupernetOptions).search_images)
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

        def value(row: NDArray[np.float64]) -> float:
            with computing(self._arithmetic), torch.inference_mode():
                return self._value(space.architecture(row), batches, dense)

        found = map_in_threads(value, population, self._run.recipe.run.threads)
        return np.array(found, dtype=np.float64)

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

    The whole network's are those that it came with, and so are its statistics.

    Raises:
        FormatError: the database is missing or damaged.
    """
    options, database = run.options(SupernetOptions), Database.load(run.path(SUPERNET), run.network)
    if is_whole(run.network, architecture):
        return {name: tensor.float().numpy() for name, tensor in database.tensors.items()}
    tensors = database.weights(architecture)
    with computing(options.arithmetic):
        statistics = calibrate(run.network, tensors, (images for images, _ in calibration_images(run)))
    return {name: tensor.float().numpy() for name, tensor in {**tensors, **statistics}.items()}


def is_whole(network: Network, architecture: Architecture) -> bool:
    """True where an architecture takes nothing from the network."""
    groups = couple(network).groups
    widths = all(width >= groups[name].channels for name, width in architecture.widths.items())
    return widths and all(density >= 1 for density in architecture.densities.values())
