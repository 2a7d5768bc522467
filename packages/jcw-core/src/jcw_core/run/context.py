"""``Context``: one run, as the pipeline makes it from a recipe and hands it to each stage."""

from __future__ import annotations

import zlib
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np

from jcw_core.datasets.split import divide, hold_out, outside, some
from jcw_core.errors import DeviceError, JcwError
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.network.shrink import Weights
from jcw_core.protocols import Dataset, Device, Progress
from jcw_core.ranks import Ranks
from jcw_core.recipe.recipe import Recipe
from jcw_core.registry import Registry
from jcw_core.run.directory import RunDirectory
from jcw_core.run.source import network_of
from jcw_core.space.bounds import BoundError
from jcw_core.space.space import SearchSpace

T = TypeVar("T")


class Context:
    """One run, a ``jcw_core.protocols.Run``: all that a recipe stands for, made when first asked for.

    Args:
        recipe: checked.
        registry: where plugins are looked up.
        directory: where files go.
        source: the recipe's network, where it has been read already.
        ranks: the processes that work on it; this one alone by default.
    """

    def __init__(
        self,
        recipe: Recipe,
        registry: Registry,
        directory: RunDirectory,
        source: Network | Model | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.recipe = recipe
        self.registry = registry
        self.directory = directory
        self.ranks = ranks or Ranks()
        self._datasets: dict[str, Dataset] = {}
        self._given = source

    def options(self, cls: type[T]) -> T:
        """The options of the recipe table that ``cls`` describes."""
        return self.recipe.options(cls)

    def path(self, name: str) -> Path:
        """Where a file of this run lies."""
        return self.directory.path(name)

    def scratch(self, stage: str) -> Path:
        """A folder for a stage's checkpoints; removed when the stage has finished."""
        return self.directory.scratch(stage)

    @cached_property
    def network(self) -> Network:
        """The network at full width, with the input of the data, and with its classes unless no labels are needed."""
        found, data = self._source, self.dataset("train")
        network = found.network if isinstance(found, Model) else found
        fits = network.num_classes == len(data.classes) or self._asks_no_labels
        if network.input_shape != data.image_shape or not fits:
            wanted, where = self.recipe.network, self.recipe.where.inside("network")
            key = next(key for key in ("backbone", "file", "module") if getattr(wanted, key))
            raise where.error(
                key,
                f"{network.name} takes {network.input_shape} and has {network.num_classes} classes, "
                f"the data has {data.image_shape} and {len(data.classes)}",
            )
        return network

    @property
    def _asks_no_labels(self) -> bool:
        """Whether a trained network is pruned as it is, which may be a detector or know other classes."""
        return getattr(self.recipe.stages.get("supernet"), "mode", "") == "post-training"

    @property
    def weights(self) -> Weights | None:
        """The trained weights of the whole network that the recipe brings, None without."""
        self.network  # noqa: B018  an error if it does not go with the data
        return self._source.weights if isinstance(self._source, Model) else None

    @property
    def input_name(self) -> str:
        """What the network's input is called in the file that it came from."""
        found = self._source
        return found.input_name if isinstance(found, Model) else found.input.name

    @cached_property
    def _source(self) -> Network | Model:
        return self._given or network_of(self.recipe, self.registry, self.dataset("train"))

    @cached_property
    def space(self) -> SearchSpace:
        """The search space, with the recipe's bounds before those of the backbone."""
        options, backbone = self.recipe.space, self.recipe.network.backbone
        defaults = self.registry.backbones[backbone].bounds if backbone else ()
        network = self.network
        try:
            return SearchSpace.of(network, options.bounds, defaults=defaults, step=options.step)
        except BoundError as error:
            index = options.bounds.index(error.bound)
            where = self.recipe.where.inside("space").inside("bounds", index)
            raise where.error(error.key, str(error)) from None

    def dataset(self, split: str) -> Dataset:
        """A split of the images.

        Args:
            split: ``"training"``, all images to train on, and its parts: ``"validation"`` (held out, on which
                the search estimates errors), ``"reevaluation"`` (held out, on which what the search has found
                is evaluated again), ``"rest"``, all others, and ``"train"``, those that the supernet is trained
                on; or ``"test"``.
        """
        if split not in self._datasets:
            try:
                self._datasets |= self._open(split)
            except JcwError as error:
                raise self.recipe.where.inside("data").error("", str(error), see=error.page or None) from None
        return self._datasets[split]

    def share_images(self, other: Context) -> None:
        """Take over the images that ``other`` has opened, where both recipes ask for the same."""
        if self.recipe.table("data") == other.recipe.table("data"):
            self._datasets = dict(other._datasets)

    def _open(self, split: str) -> dict[str, Dataset]:
        """``split`` by name, and whatever comes with it."""
        choice = self.recipe.data
        plugin = self.registry.datasets[choice.name]
        if split == "test":
            return {"test": plugin.open("test", choice.options)}
        whole = plugin.open("train", choice.options)
        wanted = self.recipe.split
        seen = some(whole, wanted.search_classes, wanted.search_per_class, self.rng("search images"))
        train, held = hold_out(seen, wanted.holdout, self.rng("holdout"))
        search, again = divide(held, wanted.reevaluation, self.rng("reevaluation"))
        return {
            "training": whole, "rest": outside(whole, held), "train": train, "validation": search, "reevaluation": again,
        }  # fmt: skip

    def open_device(self) -> Device:
        """Connect to the recipe's device."""
        choice = self.recipe.device
        if choice is None:
            raise DeviceError(
                f"{self.recipe.path}: no [device] table; add one, e.g. name = "
                f"{next(iter(self.registry.devices), 'host')!r}"
            )
        return self.registry.devices[choice.name].open(choice.options)

    def rng(self, *key: str | int) -> np.random.Generator:
        """A generator that depends on the run's seed and ``key`` alone, so that work can resume."""
        words = [k if isinstance(k, int) else zlib.crc32(k.encode()) for k in key]
        return np.random.default_rng([self.recipe.run.seed, *words])

    def progress(self, stage: str, unit: str, done: int, total: int, detail: str = "") -> None:
        """Tell every listener how far ``stage`` has come, as the first process sees it."""
        if self.ranks.is_first:
            self.registry.progress(Progress(stage, unit, done, total, detail))
