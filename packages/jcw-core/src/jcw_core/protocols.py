"""What plugins register: one protocol per family, each object carrying its ``name``.

Only types stand here; see ``jcw_core.hookspecs`` for when each hook is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from jcw_core.model import Model
from jcw_core.network import Network
from jcw_core.problem import LayerProblem
from jcw_core.space import Bound, Population, SearchSpace

if TYPE_CHECKING:
    from jcw_core.context import Context
    from jcw_core.recipe import Recipe
    from jcw_core.registry import Registry


class Backbone(Protocol):
    """A family of networks."""

    @property
    def name(self) -> str:
        """What recipes call it."""

    @property
    def bounds(self) -> Sequence[Bound]:
        """Default bounds of its search space; the first that matches a layer holds."""

    def build(
        self,
        *,
        num_classes: int = 1000,
        width: float = 1.0,
        input_size: int = 224,
        in_channels: int = 3,
    ) -> Network:
        """Return the network. ``width`` scales all channels; ``input_size`` is height and width."""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What a latency was measured on.

    Args:
        name: the device's plugin name.
        cpu: model of the processor.
        isa: instruction set that the kernels used, e.g. ``"avx512"``.
        threads: threads per network.
        versions: engine and other versions that change timings.
    """

    name: str
    cpu: str
    isa: str
    threads: int
    versions: Mapping[str, str] = field(default_factory=dict)


class Device(Protocol):
    """An open device. Times are seconds for one image; every visit is timed after a warm-up."""

    @property
    def model_format(self) -> str:
        """Name of the exporter whose files ``measure_models`` runs; ``""`` when it runs no models."""

    def describe(self) -> DeviceInfo:
        """Say what is being measured on."""

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        """Time layers: prepare them all, then visit each once per round.

        What is fused into a layer counts, a second convolution (``then``) included.

        Returns:
            (rounds, len(problems)) seconds; NaN where a single problem could not be timed.

        Raises:
            DeviceError: the device cannot measure, died or hung.
        """

    def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
        """Time whole exported models, interleaved: each once per round.

        Returns:
            (rounds, len(paths)) seconds.

        Raises:
            DeviceError: as ``measure``.
        """


@runtime_checkable
class Closable(Protocol):
    """What a ``Device`` may have besides: a way to be given up. Good for one that waits for another machine."""

    def close(self) -> None:
        """End what it does; a call in progress in another thread raises ``DeviceError``. None follows."""


class DevicePlugin(Protocol):
    """A kind of device.

    ``options`` is a frozen dataclass of the keys that ``[device]`` takes in a recipe beside ``name``.
    """

    @property
    def name(self) -> str:
        """What recipes call it."""

    @property
    def options(self) -> type[Any]:
        """Frozen dataclass of its recipe keys, see ``jcw_core.options``."""

    def open(self, options: Any) -> Device:
        """Connect. ``options`` is an instance of ``self.options``.

        Raises:
            DeviceError: the device is absent or refuses.
        """


class Evaluator(Protocol):
    """An objective that has its data at hand."""

    def begin_generation(self, parents: Population, generation: int) -> bool:
        """Called before the first evaluation (generation 0) and before each later generation.

        Returns:
            True when values given earlier no longer hold and the parents must be evaluated again.
        """

    def evaluate(self, space: SearchSpace, population: Population) -> NDArray[np.float64]:
        """One value per architecture, (n,); smaller is better. Raises ``JcwError``."""


class Objective(Protocol):
    """A quantity that the search minimises; ``unit`` is for people, e.g. ``"ms"``.

    ``needs`` names the run's files that it reads, so that the stages that make them run first.
    """

    @property
    def name(self) -> str:
        """What recipes call it."""

    @property
    def unit(self) -> str:
        """Unit of its values, for people."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Files of the run that it reads."""

    def open(self, context: Context) -> Evaluator:
        """Load what the evaluation needs (a table, a supernet) from the run."""


@runtime_checkable
class Configured(Protocol):
    """What an ``Objective`` may have besides: recipe tables that change its values beyond its files."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the tables, each owned by a stage."""


class Selection(Protocol):
    """A strategy that chooses the next population."""

    @property
    def name(self) -> str:
        """What recipes call it."""

    def select(
        self,
        objectives: NDArray[np.float64],
        size: int,
        rng: np.random.Generator,
        *,
        limits: NDArray[np.float64],
    ) -> NDArray[np.intp]:
        """Choose survivors.

        Args:
            objectives: (n, objectives); latency first, smaller is better.
            size: how many to choose, at most n.
            rng: the only source of randomness.
            limits: (2, objectives); row 0 the values of the space's smallest architecture, row 1
                those of its largest.

        Returns:
            ``size`` different indices into ``objectives``.
        """


@runtime_checkable
class Dataset(Protocol):
    """Labelled images in memory or on disk, addressed by index."""

    @property
    def classes(self) -> Sequence[str]:
        """Names of the classes, in the order of their labels."""

    @property
    def mean(self) -> Sequence[float]:
        """Per-channel mean of the pixels in [0, 1]."""

    @property
    def std(self) -> Sequence[float]:
        """Per-channel standard deviation of the pixels in [0, 1]."""

    def __len__(self) -> int: ...

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of every image."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class of every image, (n,)."""

    def images(self, indices: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Pixels of some images, (len(indices), channels, height, width).

        Raises:
            DataError: a file that is missing or damaged.
        """


class DatasetPlugin(Protocol):
    """A kind of dataset; ``options`` holds the keys of ``[data]`` beside ``name``."""

    @property
    def name(self) -> str:
        """What recipes call it."""

    @property
    def options(self) -> type[Any]:
        """Frozen dataclass of its recipe keys, see ``jcw_core.options``."""

    def open(self, split: str, options: Any) -> Dataset:
        """Open ``"train"`` or ``"test"``. Raises ``DataError``."""


class Exporter(Protocol):
    """Writes a model for some runtime; ``suffix`` begins with a dot."""

    @property
    def name(self) -> str:
        """What recipes call it."""

    @property
    def suffix(self) -> str:
        """End of its file names, with the dot."""

    def export(self, model: Model, path: Path) -> None:
        """Write ``path`` atomically. Raises ``JcwError`` for a network the format cannot hold."""


class Stage(Protocol):
    """One step of a run.

    Args:
        name: for people and for ``jcw run --until``.
        section: the recipe table that this stage owns, ``""`` for none.
        options: frozen dataclass of that table's keys; ``None`` without a table.
        reads: recipe tables that change its result (``run``, ``network``, ``data``, ``device``,
            ``space`` or another stage's), its own left out.
        makes: files relative to the run directory.
    """

    @property
    def name(self) -> str:
        """What recipes call it."""

    @property
    def section(self) -> str:
        """The recipe table that it owns, or ``""``."""

    @property
    def options(self) -> type[Any] | None:
        """Frozen dataclass of its recipe keys, see ``jcw_core.options``."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Further recipe tables that change its result."""

    @property
    def makes(self) -> tuple[str, ...]:
        """Files that it writes in every run."""

    def needs(self, recipe: Recipe, registry: Registry) -> tuple[str, ...]:
        """Files that other stages make and this one reads.

        The stage runs after theirs, and is skipped while what it made matches its inputs.
        """

    def run(self, context: Context) -> Sequence[str]:
        """Write all of ``makes``; return the names of further files that were written.

        Checkpoints go to ``context.directory.scratch(name)``. Raises ``JcwError``.
        """


@runtime_checkable
class Delegating(Protocol):
    """What a ``Stage`` may have besides, when plugins that the recipe names do part of its work."""

    def plugins_read(self, recipe: Recipe, registry: Registry) -> tuple[str, ...]:
        """Recipe tables that change what those plugins do, beside its own ``reads``."""


class ReportSection(Protocol):
    """A part of the report: merged into ``report.json`` under ``name``, drawn in ``report.html``."""

    @property
    def name(self) -> str:
        """What recipes call it."""

    @property
    def title(self) -> str:
        """Heading in the page."""

    @property
    def order(self) -> int:
        """Place in the page; smaller comes first."""

    def data(self, context: Context) -> Mapping[str, Any] | None:
        """JSON-ready data, or None when the run has nothing for it."""

    def html(self, data: Mapping[str, Any]) -> str:
        """HTML of the section's body; see ``jcw_core.charts`` for plots."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage has come.

    Args:
        stage: its name.
        unit: what is counted: ``"generation"``, ``"epoch"``, ``"layer"``, ``"model"``.
        done, total: counts.
        detail: a few words, e.g. ``"error 12.3 %"``.
    """

    stage: str
    unit: str
    done: int
    total: int
    detail: str = ""
