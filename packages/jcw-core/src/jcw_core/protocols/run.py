"""``Run``: what a stage, an objective or a section of the report may ask of the run that it is part of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from jcw_core.network.graph import Network
from jcw_core.network.shrink import Weights
from jcw_core.protocols.datasets import Dataset, DatasetPlugin
from jcw_core.protocols.devices import Device, DevicePlugin
from jcw_core.protocols.importance import Importance
from jcw_core.protocols.models import Backbone, Exporter
from jcw_core.protocols.search import Evaluator, Selection
from jcw_core.ranks import Ranks
from jcw_core.recipe.recipe import Recipe
from jcw_core.space.space import SearchSpace

T = TypeVar("T")


class Run(Protocol):
    """One run: its recipe, its files, and what the recipe stands for, made when first asked for.

    What cannot be made is a ``RecipeError`` that says where the recipe asks for it.
    """

    @property
    def recipe(self) -> Recipe:
        """What the user asked for."""

    @property
    def registry(self) -> Plugins:
        """The plugins that are installed."""

    @property
    def ranks(self) -> Ranks:
        """The processes that work on the run, of which the first alone writes files."""

    @property
    def network(self) -> Network:
        """The network at full width, with the input and the classes of the data."""

    @property
    def weights(self) -> Weights | None:
        """Trained weights of the whole network, by state-dict name; None where the recipe brings none."""

    @property
    def input_name(self) -> str:
        """What the network's input is called in the file that it came from."""

    @property
    def space(self) -> SearchSpace:
        """The search space, with the recipe's bounds before those of the backbone."""

    def options(self, cls: type[T]) -> T:
        """The options of the recipe table that ``cls`` describes."""

    def path(self, name: str) -> Path:
        """Where a file of this run lies; ``name`` is relative to the run's directory."""

    def scratch(self, stage: str) -> Path:
        """A folder for a stage's checkpoints; removed when the stage has finished."""

    def dataset(self, split: str) -> Dataset:
        """A split of the images.

        Args:
            split: ``"training"``, all images to train on, and its parts: ``"validation"`` (held out, on which
                the search estimates errors), ``"reevaluation"`` (held out, on which what the search has found
                is evaluated again), ``"rest"``, all others, and ``"train"``, those that the supernet is trained
                on; or ``"test"``.
        """

    def open_device(self) -> Device:
        """Connect to the recipe's device. Raises ``DeviceError``."""

    def rng(self, *key: str | int) -> np.random.Generator:
        """A generator that depends on the run's seed and ``key`` alone, so that work can resume."""

    def progress(self, stage: str, unit: str, done: int, total: int, detail: str = "") -> None:
        """Tell every listener how far ``stage`` has come; see ``jcw_core.protocols.Progress``."""


class Plugins(Protocol):
    """What is installed, by family and name; an unknown name is a ``PluginError`` that says what there is."""

    @property
    def backbones(self) -> Mapping[str, Backbone]:
        """Network families."""

    @property
    def devices(self) -> Mapping[str, DevicePlugin]:
        """Kinds of device."""

    @property
    def objectives(self) -> Mapping[str, Objective]:
        """Objectives of a search."""

    @property
    def selections(self) -> Mapping[str, Selection]:
        """Selection strategies."""

    @property
    def importances(self) -> Mapping[str, Importance]:
        """Criteria of channel importance."""

    @property
    def datasets(self) -> Mapping[str, DatasetPlugin]:
        """Kinds of dataset."""

    @property
    def exporters(self) -> Mapping[str, Exporter]:
        """File formats for models."""

    @property
    def report_sections(self) -> Mapping[str, ReportSection]:
        """Sections of the report."""


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

    def open(self, run: Run) -> Evaluator:
        """Load what the evaluation needs (a table, a supernet) from the run."""


@runtime_checkable
class Configured(Protocol):
    """What an ``Objective`` may have besides: recipe tables that change its values beyond its files."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the tables, each owned by a stage."""


class ReportSection(Protocol):
    """A part of the report: merged into ``report.json`` under ``name``, drawn in ``report.html``."""

    @property
    def name(self) -> str:
        """Its key in ``report.json``."""

    @property
    def title(self) -> str:
        """Heading in the page."""

    @property
    def order(self) -> int:
        """Place in the page; smaller comes first."""

    def data(self, run: Run) -> Mapping[str, Any] | None:
        """JSON-ready data, or None when the run has nothing for it."""

    def html(self, data: Mapping[str, Any]) -> str:
        """HTML of the section's body; see ``jcw_core.report.charts`` for plots."""


@runtime_checkable
class Summarizing(Protocol):
    """What a ``ReportSection`` may have besides: a line for the end of ``jcw run`` and for ``jcw show``."""

    def summary(self, data: Mapping[str, Any]) -> str:
        """The line for what ``data`` returned, or ``""``."""
