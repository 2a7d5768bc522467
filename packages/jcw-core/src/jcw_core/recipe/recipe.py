"""Recipes: what the user asked for, as a TOML file whose every key is checked before work begins."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from jcw_core.backbones.family import WIDTHS
from jcw_core.errors import PluginError, RecipeError
from jcw_core.names import is_path_inside
from jcw_core.options import TABLES, Location, Word, option, parse
from jcw_core.providers import PLUGINS
from jcw_core.shown import call_of
from jcw_core.space.bounds import Bound

T = TypeVar("T")


_TIME = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) ?(s|min|h)")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """``[run]``: the run as a whole."""

    name: str = option("", help="folder under runs/; the recipe's file name by default")
    seed: int = option(0, low=0, help="seed of everything random")
    threads: int = option(1, low=1, high=1024, help="threads for training and evaluation")
    workers: int = option(
        1,
        low=0,
        high=1024,
        help="threads beside these that read and change images before a training wants them",
    )
    accelerator: Literal["auto", "cpu", "cuda"] = option(
        "auto",
        help="what trains: a GPU in bf16 where torch has one, the processor, or a GPU and nothing else",
    )
    time: str = option(
        "",
        help='about how long profile, trainings and search may take, e.g. "5 min": epochs, population and models are cut '
        "to it, and the profile ends with what it has",
    )

    def __post_init__(self) -> None:
        self.seconds  # noqa: B018  an error where the time is none
        if self.name and not is_path_inside(self.name):
            raise RecipeError(
                f"name = {self.name!r} is no folder under runs/; give a name, or a path below it"
            )

    @property
    def seconds(self) -> float | None:
        """``time`` in seconds, None without."""
        if not self.time:
            return None
        found = _TIME.fullmatch(self.time)
        if found is None or not float(found[1]):
            raise RecipeError(f'time = {self.time!r:.40}: expected a time such as "90 s", "5 min" or "1.5 h"')
        return float(found[1]) * {"s": 1, "min": 60, "h": 3600}[found[2]]


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """``[network]``: the network to prune. Its input and classes are those of the data."""

    backbone: str = option("", help="name of a registered backbone")
    file: Path | None = option(
        None, help="a network as JSON or ONNX (with its weights), in place of a backbone"
    )
    module: str = option(
        "", help="package.module:function that returns a torch module, in place of a backbone"
    )
    code: str = option(
        "", help="folder in which the module is looked for first, from the recipe's, which is the default"
    )
    weights: Path | None = option(None, help="trained weights, .safetensors or .pth")
    new_head: bool = option(
        False,
        help="the weights are of other classes: the last linear layer, of a backbone, begins with zeros",
    )
    outputs: tuple[str, ...] = option(
        (), help="where the network ends: values of an ONNX file, or modules within a torch module"
    )
    shape: tuple[int, ...] = option((), low=1, help="one image, [1, 3, 224, 224]; the data's by default")
    width: float = option(1.0, low=WIDTHS[0], high=WIDTHS[1], help="factor on all channels")
    built_for: int | None = option(
        None,
        low=1,
        high=4096,
        help="height for which a backbone chooses its strides, the data's by default; 224 keeps those with which "
        "weights were trained on ImageNet",
    )
    prune_first: bool = option(
        False,
        help="weights of the first convolution may be pruned as well, where most time is left there when others are sparse",
    )

    def __post_init__(self) -> None:
        if [bool(self.backbone), bool(self.file), bool(self.module)].count(True) != 1:
            raise RecipeError("give either backbone, file or module")
        if self.new_head and not (self.backbone and self.weights):
            raise RecipeError("new_head is for a backbone that takes over weights; give backbone and weights")
        if self.built_for and not self.backbone:
            raise RecipeError("built_for is for a backbone, which chooses its strides; leave it out")
        if self.outputs and not self.module and (self.file is None or self.file.suffix.lower() != ".onnx"):
            raise RecipeError(
                "outputs name values of an ONNX file, or modules within a torch module; give one of these"
            )
        if self.shape and (len(self.shape) != 4 or self.shape[0] != 1):
            raise RecipeError(f"shape is {list(self.shape)}, expected [1, channels, height, width]")
        if self.weights and self.file and self.file.suffix.lower() == ".onnx":
            raise RecipeError("weights and an ONNX file, which brings its own; leave weights out")

    def __repr__(self) -> str:
        return call_of(self)


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """The keys of ``[data]`` that every dataset takes."""

    search_classes: int | None = option(
        None,
        low=1,
        help="classes of which the supernet and the search see images; all by default, as retraining does",
    )
    search_per_class: int | None = option(
        None, low=2, help="most images of a class that they see, held out ones included; all by default"
    )
    holdout: int = option(2000, low=2, help="training images held out to estimate errors on")
    reevaluation: float = option(
        0.5, low=0.01, high=0.99, help="share of these that no search sees, to evaluate its front again"
    )


@dataclass(frozen=True, slots=True)
class SpaceOptions:
    """``[space]``: what the search may choose from."""

    step: int = option(4, low=1, help="widths are multiples of this many channels")
    bounds: tuple[Bound, ...] = option((), help="tables of layers, width, density; before the backbone's own")


@dataclass(frozen=True, slots=True)
class Choice:
    """A plugin chosen by name, with its options."""

    name: str
    options: Any


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe that has been read and checked.

    ``stages`` holds the options of each stage's own table, by table name; ``where`` the file, for errors.
    """

    where: Location
    run: RunOptions
    network: NetworkOptions
    data: Choice
    split: SplitOptions
    device: Choice | None
    space: SpaceOptions
    stages: Mapping[str, Any]

    def __repr__(self) -> str:
        network = self.network.backbone or self.network.module or str(self.network.file)
        device = f", device {self.device.name!r}" if self.device else ""
        return f"<Recipe {self.path.name!r}: network {network!r}, data {self.data.name!r}{device}>"

    @property
    def path(self) -> Path:
        """The recipe's file."""
        return self.where.path

    def options(self, cls: type[T]) -> T:
        """The options of the stage table that ``cls`` describes."""
        for found in self.stages.values():
            if isinstance(found, cls):
                return found
        raise PluginError(f"no installed stage reads {cls.__name__}")

    def table(self, name: str) -> Any:
        """The options of one table, or the value of one key, as a stage names them in ``reads``.

        Args:
            name: ``"TABLE"`` or ``"TABLE.KEY"``.

        Raises:
            PluginError: no recipe has such a table or key with the stages that are installed.
        """
        table, dot, key = name.partition(".")
        if dot:
            options = self.table(table)
            if not hasattr(options, key):
                raise PluginError(f"a plugin reads the recipe key {name}, which its stage does not have")
            return getattr(options, key)
        if name == "data":
            return {"data": self.data, "split": self.split}
        if name not in self.stages and name not in TABLES:
            known = ", ".join([*TABLES, *self.stages])
            raise PluginError(
                f"a plugin reads the recipe table [{name}], which no stage owns; there is: {known}"
            )
        return self.stages[name] if name in self.stages else getattr(self, name)


class Catalogue(Protocol):
    """What a recipe may name, by family: ``jcw_core.registry.Registry`` is one."""

    @property
    def backbones(self) -> Mapping[str, Any]:
        """For ``[network] backbone``."""

    @property
    def datasets(self) -> Mapping[str, Any]:
        """For ``[data] name``."""

    @property
    def devices(self) -> Mapping[str, Any]:
        """For ``[device] name``."""

    @property
    def stages(self) -> Mapping[str, Any]:
        """Owners of further tables."""


def load_recipe(
    path: Path, registry: Catalogue, overrides: Mapping[str, Any] | None = None, text: str | None = None
) -> Recipe:
    """Read a recipe.

    Args:
        path: a TOML file.
        registry: whose stages, datasets and devices the recipe may use.
        overrides: values by ``"table.key"`` that replace those of the file.
        text: what the file will hold, where it is still to be written.

    Raises:
        RecipeError: anything unknown, missing, of the wrong type or impossible; a plugin not installed.
        PluginError: two plugins claim one name.
    """
    try:
        if text is None:
            text = path.read_text(encoding="utf-8-sig")  # some editors on Windows begin with a mark
        document = tomllib.loads(text)
    except FileNotFoundError:
        raise RecipeError(f"{path}: no such file", see="") from None
    except IsADirectoryError:
        raise RecipeError(
            f"{path}: a folder, expected a recipe, which is a TOML file; jcw show and jcw watch take the folder of a run"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise RecipeError(f"{path}: not a TOML file: {error}") from None
    _override(document, overrides or {})
    where = Location(path, text)
    owned = {s.section: s.options for s in registry.stages.values() if s.section and s.options}
    known = [*TABLES, *owned]
    for table, content in document.items():
        if table not in known:
            hint = f"; install {PLUGINS[table]}" if table in PLUGINS else ""
            raise where.inside(table).error("", f"unknown table{hint}; known are {', '.join(known)}")
        if not isinstance(content, dict):
            raise where.error(table, f"expected a table, found {content!r}")
    split, data = _data(document, registry, where.inside("data"))
    return Recipe(
        where=where,
        run=parse(RunOptions, document.get("run", {}), where.inside("run")),
        network=_network(document, registry, where.inside("network")),
        data=data,
        split=split,
        device=_choice(document.get("device"), registry.devices, where.inside("device")),
        space=parse(SpaceOptions, document.get("space", {}), where.inside("space")),
        stages={name: parse(cls, document.get(name, {}), where.inside(name)) for name, cls in owned.items()},
    )


def _override(document: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    for dotted, value in overrides.items():
        *tables, key = dotted.split(".")
        if not tables:
            raise RecipeError(f"cannot set {dotted!r}; expected TABLE.KEY, e.g. search.generations")
        target = document
        for table in tables:
            target = target.setdefault(table, {})
            if not isinstance(target, dict):
                raise RecipeError(f"cannot set {dotted!r}: {table} is not a table")
        target[key] = value


def _network(document: Mapping[str, Any], registry: Catalogue, where: Location) -> NetworkOptions:
    options = parse(NetworkOptions, document.get("network", {}), where)
    try:
        if options.backbone:
            registry.backbones[options.backbone]
    except PluginError as error:
        raise where.error("backbone", str(error)) from None
    return options


def _data(document: Mapping[str, Any], registry: Catalogue, where: Location) -> tuple[SplitOptions, Choice]:
    table = dict(document.get("data", {}))
    common = {f.name for f in fields(SplitOptions)}
    split = parse(SplitOptions, {k: table.pop(k) for k in common & table.keys()}, where)
    choice = _choice(table, registry.datasets, where)
    assert choice is not None
    return split, choice


def _choice(table: Mapping[str, Any] | None, family: Mapping[str, Any], where: Location) -> Choice | None:
    if table is None:
        return None
    name = table.get("name")
    name = name.text if isinstance(name, Word) else name
    if not isinstance(name, str):
        raise where.error(
            "name", f"expected the name of a plugin, found {name!r}; there is: {', '.join(family)}"
        )
    try:
        plugin = family[name]
    except PluginError as error:
        raise where.error("name", str(error)) from None
    return Choice(name, parse(plugin.options, {k: v for k, v in table.items() if k != "name"}, where))


def canonical(options: Any) -> str:
    """Options as text that changes exactly when a value does."""

    def plain(value: Any) -> Any:
        return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)

    return json.dumps(options, default=plain, sort_keys=True)


def paths_in(options: Any) -> Iterator[Path]:
    """Every file that options point to."""
    if isinstance(options, Path):
        yield options
    elif isinstance(options, Mapping):
        for value in options.values():
            yield from paths_in(value)
    elif isinstance(options, tuple):
        for value in options:
            yield from paths_in(value)
    elif is_dataclass(options):
        for one in fields(options):
            yield from paths_in(getattr(options, one.name))
