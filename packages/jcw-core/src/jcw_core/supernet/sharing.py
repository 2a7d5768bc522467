"""Training of the shared weights, on random architectures or on a population."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from jcw_core.protocols import Run
from jcw_core.recipe.recipe import canonical
from jcw_core.run.records import SUPERNET
from jcw_core.space.space import Population
from jcw_core.supernet.draws import Draws
from jcw_core.supernet.options import SupernetOptions, search_variant
from jcw_core.supernet.post_training import ordered_weights
from jcw_core.training import checkpoint
from jcw_core.training.accelerator import arithmetic_of
from jcw_core.training.batches import TrainingImages
from jcw_core.training.loop import EpochReport, Method, Subnetworks, Training
from jcw_core.training.module import Slimmable
from jcw_core.training.precision import threads


class Sharing(Method):
    """Sub-networks that are drawn anew in each step, so that all of them share the weights (equation 4 of the paper).

    Args:
        draws: which ones.
    """

    def __init__(self, draws: Draws) -> None:
        self._draws = draws

    def subnetworks(self, epoch: int, steps: int, rng: np.random.Generator) -> Iterator[Subnetworks]:
        """The sub-networks of each step."""
        architecture = self._draws.space.architecture
        return ([architecture(row) for row in rows] for rows in self._draws.steps(epoch, steps, rng))


def train_supernet(run: Run) -> None:
    """Train on random architectures and write ``supernet.safetensors``; all processes of the run call this."""
    options = run.options(SupernetOptions)
    arithmetic = arithmetic_of(run, options.arithmetic)
    module = Slimmable(run.network, run.rng("supernet", "weights")).to(arithmetic.device)
    if options.init == "pretrained":
        module.load_weights(ordered_weights(run))
    images = TrainingImages(run.dataset("train"), options.augmentation, arithmetic, run.recipe.run.workers)
    draws = Draws(run.space, search_variant(run.recipe), options.draws, options.channel_epochs)
    with threads(run.recipe.run.threads):
        Training(
            module,
            images,
            options.training(options.shared_epochs),
            arithmetic,
            rng=lambda epoch: run.rng("supernet", epoch),
            path=run.scratch("supernet") / "epoch.safetensors",
            report=lambda epoch: run.progress(
                "supernet", "epoch", epoch.done, epoch.total, f"loss {epoch.loss:.3f}, {epoch.seconds:.1f} s"
            ),
            method=Sharing(draws),
            ranks=run.ranks,
            key="supernet.batch_size",
        ).run()
    if not run.ranks.is_first:
        return
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
    """Train on the architectures of one generation, from the weights that ``module`` has; all processes call this."""
    options = run.options(SupernetOptions)
    Training(
        module,
        images,
        options.training(options.epochs - options.shared_epochs),
        arithmetic_of(run, options.arithmetic),
        rng=lambda epoch: run.rng("supernet", "generation", generation, epoch),
        path=path,
        report=report,
        method=Sharing(Draws(run.space, rule=options.draws, population=population)),
        ranks=run.ranks,
        key="supernet.batch_size",
    ).run()


def load_supernet(run: Run, module: Slimmable) -> None:
    """Put the weights of ``supernet.safetensors`` into ``module``. Raises ``FormatError``."""
    path = run.path(SUPERNET)
    tensors, _ = checkpoint.load(path)
    checkpoint.load_into(module.state_dict(), tensors, path)
