"""Training of the shared weights, on random architectures or on a population."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from jcw_core.network.architecture import Architecture
from jcw_core.protocols import Run
from jcw_core.recipe.recipe import canonical
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


def train_supernet(run: Run) -> None:
    """Train on random architectures and write ``supernet.safetensors``."""
    options = run.options(SupernetOptions)
    module = Slimmable(run.network, run.rng("supernet", "weights"))
    images = TrainingImages(run.dataset("train"), options.augmentation, options.arithmetic)
    with threads(run.recipe.run.threads):
        Training(
            module,
            images,
            options.training(options.shared_epochs),
            options.arithmetic,
            rng=lambda epoch: run.rng("supernet", epoch),
            path=run.scratch("supernet") / "epoch.safetensors",
            report=lambda epoch: run.progress(
                "supernet", "epoch", epoch.done, epoch.total, f"loss {epoch.loss:.3f}, {epoch.seconds:.1f} s"
            ),
            method=Sharing(run.space),
        ).run()
    # Options that only the search reads (calibration, generations) change the file too, so that a
    # search with other options is not taken for finished.
    metadata = {"network": run.network.name, "options": canonical(options)}
    checkpoint.save(run.path(SUPERNET), module.state_dict(), metadata)


def train_on_population(
    run: Run,
    module: Slimmable,
    images: TrainingImages,
    population: Population,
    generation: int,
    path: Path,
    report: Callable[[EpochReport], None],
) -> None:
    """Train on the architectures of one generation, from the weights that ``module`` has."""
    options = run.options(SupernetOptions)
    Training(
        module,
        images,
        options.training(options.epochs - options.shared_epochs),
        options.arithmetic,
        rng=lambda epoch: run.rng("supernet", "generation", generation, epoch),
        path=path,
        report=report,
        method=Sharing(run.space, population),
    ).run()


def load_supernet(run: Run, module: Slimmable) -> None:
    """Put the weights of ``supernet.safetensors`` into ``module``. Raises ``FormatError``."""
    path = run.path(SUPERNET)
    tensors, _ = checkpoint.load(path)
    checkpoint.load_into(module.state_dict(), tensors, path)
