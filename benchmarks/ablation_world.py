"""What the pieces of the ablation share: images, a network with its space and latencies, shared weights."""

from __future__ import annotations

import shutil
import zlib
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
from ablation_settings import ARITHMETIC, AUGMENTATION, SIZE, Settings

from jcw_core.datasets.split import Subset, hold_out
from jcw_core.errors import JcwError
from jcw_core.files import digest
from jcw_core.frozen import FrozenDict
from jcw_core.network.graph import Network
from jcw_core.protocols import Dataset
from jcw_core.registry import Registry
from jcw_core.space.space import Population, SearchSpace
from jcw_core.training.batches import EVALUATED, FixedImages, TrainingImages
from jcw_latency import LatencyPredictor, LatencyTable, profile_space
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.fidelity.verdict import judge
from jcw_search import Fixed


class Images:
    """CIFAR-10 in the parts that all networks and seeds see alike.

    Args:
        path: of the images.
        settings: how many are held out, and what for.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        plugin = Registry().datasets["cifar10"]
        whole = plugin.open("train", plugin.options(path=path))
        self._settings = settings
        self.test: Dataset = plugin.open("test", plugin.options(path=path))
        self.train, held = hold_out(whole, settings.held_out, np.random.default_rng(0))
        drawn = np.random.default_rng(1).permutation(len(held))
        self.validation = Subset(held, np.sort(drawn[: settings.validation]))
        self.reevaluation = Subset(held, np.sort(drawn[settings.validation :]))

    @cached_property
    def training(self) -> TrainingImages:
        """The training images as they are trained on; decoded when first asked for."""
        return TrainingImages(self.train, AUGMENTATION, ARITHMETIC)

    def calibration(self, count: int) -> FixedImages:
        """Training images that set batch-norm statistics."""
        return FixedImages.drawn(self.train, count, np.random.default_rng(2), ARITHMETIC)

    def fixed(self, dataset: Dataset, count: int | None = None) -> FixedImages:
        """The first ``count`` images of a part, all by default."""
        indices = np.arange(len(dataset) if count is None else min(count, len(dataset)))
        return FixedImages(dataset, indices, EVALUATED, ARITHMETIC)


class World:
    """A network under its settings.

    Args:
        settings: of the network.
        data: path of the images.
        work: folder for what may be lost.
        table: file of the latency table, which may not be there yet.
    """

    def __init__(self, settings: Settings, data: Path, work: Path, table: Path) -> None:
        self.registry = Registry()
        self.settings = settings
        self.table_path = table
        backbone = self.registry.backbones[settings.network]
        self.network = strided(
            backbone.build(num_classes=10, width=settings.width, input_size=SIZE), settings.stem_stride
        )
        self.space = SearchSpace.of(self.network, defaults=backbone.bounds)
        self._data, self._work = data, work

    @cached_property
    def images(self) -> Images:
        """Opened when first asked for."""
        return Images(self._data, self.settings)

    @property
    def inputs(self) -> str:
        """Hash of the settings and of the latency table: rows that bear another are measured again."""
        return f"{self.settings.key()}-{digest(self.table_path)[:12]}"

    def folder(self, *parts: str | int) -> Path:
        """A folder below the work folder for these settings."""
        name = "-".join(map(str, (self.settings.network, *parts, self.settings.key())))
        path = self._work / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @cached_property
    def latency(self) -> Fixed:
        """Predicted milliseconds, as an objective of a search."""
        predictor = LatencyPredictor(LatencyTable.load(self.table_path), self.space)
        return Fixed(lambda _, population: predictor.predict(population), exact=True)

    def latency_ms(self, rows: Population) -> Population:
        """Predicted milliseconds of rows of the space, (n,)."""
        return self.latency.evaluate(self.space, rows)

    @property
    def budgets_ms(self) -> list[float]:
        """Latencies at which models are compared, from the smallest."""
        dense = float(self.latency_ms(self.space.maximum[None])[0])
        return [dense / speedup for speedup in self.settings.speedups]

    def device(self) -> GuardedDevice:
        """The machine that runs it."""
        plugin = self.registry.devices["host"]
        device = plugin.open(plugin.options())
        return GuardedDevice.of(device, self.settings.latency.timeout, self.registry.exporters)

    def profile(self, anyhow: bool) -> None:
        """Measure the latency table, from where an interrupted profile stopped.

        Raises:
            JcwError: it is not to be believed, and not wanted ``anyhow``.
        """
        folder = self.folder("profile")
        table = profile_space(
            self.space, self.device(), self.settings.latency,
            rng=np.random.default_rng(0), folder=folder, checkpoint=folder / "samples.npz",
        )  # fmt: skip
        shutil.rmtree(folder)
        verdict = judge(table, again="--set ")
        print(f"{self.settings.network}: {verdict}", flush=True)
        if verdict.level == "not to be believed" and not anyhow:
            raise JcwError(
                f"{self.settings.network}: {', '.join(verdict.reasons)}; run again when it is idle"
            )
        table.save(self.table_path)


def strided(network: Network, stride: int) -> Network:
    """``network`` with another stride in its first convolution."""
    stem = next(node for node in network if node.op == "conv2d")
    other = replace(stem, attributes=FrozenDict({**stem.attributes, "stride": (stride, stride)}))
    return replace(network, nodes=tuple(other if node is stem else node for node in network))


def rng_of(*key: str | int) -> np.random.Generator:
    """A generator that depends on ``key`` alone."""
    return np.random.default_rng([k if isinstance(k, int) else zlib.crc32(k.encode()) for k in key])
