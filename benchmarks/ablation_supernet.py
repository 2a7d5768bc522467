"""Shared weights and what they estimate, each estimate kept in a file as it comes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ablation_settings import ARITHMETIC, AUGMENTATION
from ablation_world import World, rng_of
from harness import Row
from resumable import rows_of

from jcw_core.datasets.split import Subset
from jcw_core.space.space import Population, SearchSpace
from jcw_core.supernet.draws import Draws
from jcw_core.supernet.evaluation import score_subnetwork
from jcw_core.supernet.sharing import Sharing
from jcw_core.training.batches import Batch, TrainingImages
from jcw_core.training.loop import EpochReport, Training
from jcw_core.training.module import Slimmable
from jcw_core.training.options import TrainingOptions

Floats = Population


def told(what: str, epoch: EpochReport) -> None:
    """Print how far a training has come."""
    print(
        f"{what}: epoch {epoch.done} of {epoch.total}, loss {epoch.loss:.3f}, {epoch.seconds:.0f} s",
        flush=True,
    )


def train(
    world: World, seed: int, path: Path, options: TrainingOptions, draws: Draws,
    images: TrainingImages, module: Slimmable, *key: str | int,
) -> Slimmable:  # fmt: skip
    """Train shared weights from where a checkpoint at ``path`` stands."""
    Training(
        module, images, options, ARITHMETIC,
        rng=lambda epoch: rng_of("supernet", seed, *key, epoch),
        path=path,
        report=lambda epoch: told(f"{world.network.name}, seed {seed}, {path.stem}", epoch),
        method=Sharing(draws),
    ).run()  # fmt: skip
    return module


def supernet(world: World, seed: int, epochs: int | None = None) -> Slimmable:
    """The shared weights of a seed; those of fewer epochs have a learning rate that falls as fast."""
    settings = world.settings.supernet
    count = settings.epochs if epochs is None else epochs
    options = TrainingOptions(count, settings.batch_size, settings.lr, weight_decay=settings.weight_decay)
    path = world.folder(seed) / f"supernet-{count}.safetensors"
    module = Slimmable(world.network, rng_of("weights", seed))
    draws = Draws(world.space, rule=world.settings.draws)
    return train(world, seed, path, options, draws, world.images.training, module)


class Estimator:
    """What is wrong with sub-networks: the loss, by which searches go, as in the paper's code, and the share of errors.

    The loss on so few images tells networks apart that differ in a few of their answers. Every value is kept in a file,
    so that a search which was killed is run again in no time.

    Args:
        world: the network.
        module: shared weights.
        path: where values are kept; one file for each state of the weights.
        validation: on which the search estimates.
        calibration: that set batch-norm statistics.
    """

    def __init__(
        self, world: World, module: Slimmable, path: Path,
        validation: Sequence[Batch], calibration: Sequence[Batch], reevaluation: Sequence[Batch] | None,
    ) -> None:  # fmt: skip
        self._world, self._path = world, path
        self._batches = {"validation": validation, "reevaluation": reevaluation}
        self._calibration = calibration
        self.module = module.eval()
        self.state = 0
        self.seconds = 0.0

    @classmethod
    def of(cls, world: World, module: Slimmable, seed: int, name: str = "estimates") -> Estimator:
        """With the images of the settings."""
        images, settings = world.images, world.settings
        return cls(
            world, module, world.folder(seed) / name,
            images.fixed(images.validation), images.calibration(settings.calibration),
            images.fixed(images.reevaluation),
        )  # fmt: skip

    @classmethod
    def rough(cls, world: World, module: Slimmable, seed: int) -> Estimator:
        """With few images, so that many generations can be afforded; fronts are not evaluated again."""
        images, count = world.images, world.settings.rough_images
        path = world.folder(seed) / "rough"
        return cls(
            world, module, path, images.fixed(images.validation, count), images.calibration(count), None
        )

    def begin_generation(self, population: Population, generation: int) -> bool:
        """Weights that are trained once give values that hold."""
        return False

    def evaluate(self, space: SearchSpace, population: Population) -> Floats:
        """Loss on the search's images, in nats, (n,)."""
        return self._values(population, "validation", "loss")

    def again(self, population: Population) -> Floats:
        """Share of errors on images that the search has not seen, (n,)."""
        return self._values(population, "reevaluation", "error")

    def _values(self, population: Population, split: str, what: str) -> Floats:
        wanted: list[Row] = [
            {"state": self.state, "images": split, "row": row.tolist()} for row in population
        ]
        found = list(rows_of(wanted, self._score, self._path))
        self.seconds += sum(row["seconds"] for row in found)
        return np.array([row[what] for row in found], dtype=np.float64)

    def _score(self, wanted: Row) -> Row:
        began = time.process_time()
        architecture = self._world.space.architecture(np.array(wanted["row"]))
        batches = self._batches[wanted["images"]]
        assert batches is not None
        score = score_subnetwork(self.module, architecture, self._calibration, batches, ARITHMETIC)
        return {"error": score.error, "loss": score.loss, "seconds": time.process_time() - began}


class Retrained(Estimator):
    """Shared weights that are trained on each generation's architectures, as in algorithm 1 of the paper.

    A generation begins with the weights of the warm-up, and sees its share of what is left of the epochs, so that
    the training costs what it costs once before a search.
    """

    def prepare(self, seed: int, generations: int) -> Retrained:
        """Say which seed's warm-up generations begin with, and how many share what is left."""
        settings, images = self._world.settings.supernet, self._world.images
        self._seed = seed
        left = settings.epochs - settings.epochs // 2
        self._share = min(1.0, left / generations)
        self._train = images.train
        return self

    def begin_generation(self, population: Population, generation: int) -> bool:
        """Train on the population, but for the first, which the warm-up has to serve."""
        self.state = generation
        if not generation:
            return False
        world, options = self._world, self._world.settings.supernet
        self.module = supernet(world, self._seed, options.epochs // 2)
        count = max(options.batch_size, int(self._share * len(self._train)))
        drawn = rng_of("generation", self._seed, generation).permutation(len(self._train))[:count]
        images = TrainingImages(Subset(self._train, np.sort(drawn)), AUGMENTATION, ARITHMETIC)
        once = TrainingOptions(1, options.batch_size, options.lr / 2, weight_decay=options.weight_decay)
        path = world.folder(self._seed) / f"generation-{generation}.safetensors"
        train(
            world, self._seed, path, once, Draws(world.space, rule=world.settings.draws, population=population),
            images, self.module, "generation", generation,
        )  # fmt: skip
        self.module.eval()
        return True
