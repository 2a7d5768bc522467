"""A run without data, device or supernet, for the tests' process and for one that dies."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import jcw_search.plugin
from jcw_core.backbones.resnet import RESNET18
from jcw_core.hookspecs import hookimpl
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.space.space import Population, SearchSpace


@dataclass(frozen=True)
class NoOptions:
    pass


class NoData:
    name = "nothing"
    options = NoOptions
    classes = tuple("0123456789")
    image_shape = (1, 28, 28)
    labels = np.arange(2000) % 10

    def open(self, split: str, options: NoOptions) -> NoData:
        return self

    def __len__(self) -> int:
        return 2000


class Toy:
    """An objective and its evaluator; dies on request, like a machine."""

    def __init__(self, name: str, unit: str, needs: tuple[str, ...], die_at: int | None) -> None:
        self.name, self.unit, self.needs, self.die_at = name, unit, needs, die_at
        self.exact = name == "latency"

    def open(self, context: Context) -> Toy:
        return self

    def begin_generation(self, population: Population, generation: int) -> bool:
        self.generation = generation
        return False

    def evaluate(self, space: SearchSpace, population: Population) -> Population:
        if self.die_at is not None and self.generation == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        share = space.encode(population)
        return (
            share.mean(axis=1) * 20
            if self.name == "latency"
            else 0.1 + 0.8 * np.exp(-3 * share.mean(axis=1) ** 2)
        )


class Plugin:
    def __init__(self, die_at: int | None) -> None:
        self.die_at = die_at

    @hookimpl
    def jcw_register_backbones(self) -> list[Any]:
        return [RESNET18]

    @hookimpl
    def jcw_register_datasets(self) -> list[Any]:
        return [NoData()]

    @hookimpl
    def jcw_register_objectives(self) -> list[Any]:
        return [
            Toy("latency", "ms", ("table.npz",), None),
            Toy("error", "share", ("supernet.safetensors",), self.die_at),
        ]


def context(recipe: Path | str, root: Path | str, die_at: int | None = None) -> Context:
    plugins = {"search": jcw_search.plugin, "toy": Plugin(die_at)}
    registry = Registry(plugins, installed=False)
    return Context(load_recipe(Path(recipe), registry), registry, RunDirectory(Path(root)))
