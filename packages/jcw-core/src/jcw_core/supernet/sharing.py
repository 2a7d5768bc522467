"""Training of the shared weights, on random architectures or on a population."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from jcw_core.network.architecture import Architecture
from jcw_core.recipe.recipe import canonical
from jcw_core.run.context import Context
from jcw_core.run.records import SUPERNET
from jcw_core.space.space import Population, SearchSpace
from jcw_core.supernet.options import SupernetOptions
from jcw_core.training import checkpoint
from jcw_core.training.batches import TrainingImages
from jcw_core.training.loop import EpochReport, Method, Training
from jcw_core.training.module import Slimmable
from jcw_core.training.precision import threads


class Sharing(Method):
    """One sub-network per step, so that all of them share the weights (equation 4 of the paper).

    Args:
        space: the search space.
        population: values (n, dimensions) to draw from; None to draw from the whole space.
    """

    def __init__(self, space: SearchSpace, population: Population | None = None) -> None:
        self._space = space
        self._population = population

    def subnetworks(self, steps: int, rng: np.random.Generator) -> Iterator[Architecture]:
        """The sub-network of each step."""
        if self._population is None:
            rows = self._space.sample(steps, rng)
        else:
            rows = self._population[rng.integers(len(self._population), size=steps)]
        return map(self._space.architecture, rows)


def train_supernet(context: Context) -> None:
    """Train on random architectures and write ``supernet.safetensors``."""
    options = context.options(SupernetOptions)
    module = Slimmable(context.network, context.rng("supernet", "weights"))
    images = TrainingImages(context.dataset("train"), options.augmentation, options.arithmetic)
    with threads(context.recipe.run.threads):
        Training(
            module,
            images,
            options.training(options.shared_epochs),
            options.arithmetic,
            rng=lambda epoch: context.rng("supernet", epoch),
            path=context.directory.scratch("supernet") / "epoch.safetensors",
            report=lambda epoch: context.progress(
                "supernet", "epoch", epoch.done, epoch.total, f"loss {epoch.loss:.3f}, {epoch.seconds:.1f} s"
            ),
            method=Sharing(context.space),
        ).run()
    # Options that only the search reads (calibration, generations) change the file too, so that a
    # search with other options is not taken for finished.
    metadata = {"network": context.network.name, "options": canonical(options)}
    checkpoint.save(context.path(SUPERNET), module.state_dict(), metadata)


def train_on_population(
    context: Context,
    module: Slimmable,
    images: TrainingImages,
    population: Population,
    generation: int | str,
    path: Path,
    report: Callable[[EpochReport], None],
) -> None:
    """Train on the architectures of one generation, from the weights that ``module`` has."""
    options = context.options(SupernetOptions)
    Training(
        module,
        images,
        options.training(options.epochs - options.shared_epochs),
        options.arithmetic,
        rng=lambda epoch: context.rng("supernet", "generation", generation, epoch),
        path=path,
        report=report,
        method=Sharing(context.space, population),
    ).run()


def load_supernet(context: Context, module: Slimmable) -> None:
    """Put the weights of ``supernet.safetensors`` into ``module``. Raises ``FormatError``."""
    path = context.path(SUPERNET)
    tensors, _ = checkpoint.load(path)
    checkpoint.load_into(module.state_dict(), tensors, path)
