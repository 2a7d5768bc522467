"""A run without data, device or supernet; read with exec, in the tests' process and in one that dies."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import jcw_search.plugin
from jcw_core.backbones.resnet import RESNET18
from jcw_core.hookspecs import hookimpl
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory


@dataclass(frozen=True)
class NoOptions:
    pass


class NoData:
    name = "nothing"
    options = NoOptions
    classes = tuple("0123456789")
    image_shape = (1, 28, 28)
    labels = np.arange(2000) % 10

    def open(self, split, options):
        return self

    def __len__(self):
        return 2000


class Toy:
    """An objective and its evaluator; dies on request, like a machine."""

    def __init__(self, name, unit, needs, die_at):
        self.name, self.unit, self.needs, self.die_at = name, unit, needs, die_at

    def open(self, context):
        return self

    def begin_generation(self, population, generation):
        self.generation = generation
        return False

    def evaluate(self, space, population):
        if self.generation == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        share = space.encode(population)
        return (
            share.mean(axis=1) * 20
            if self.name == "latency"
            else 0.1 + 0.8 * np.exp(-3 * share.mean(axis=1) ** 2)
        )


class Plugin:
    def __init__(self, die_at):
        self.die_at = die_at

    @hookimpl
    def jcw_register_backbones(self):
        return [RESNET18]

    @hookimpl
    def jcw_register_datasets(self):
        return [NoData()]

    @hookimpl
    def jcw_register_objectives(self):
        return [
            Toy("latency", "ms", ("table.npz",), None),
            Toy("error", "share", ("supernet.safetensors",), self.die_at),
        ]


def context(recipe, root, die_at=None):
    plugins = {"search": jcw_search.plugin, "toy": Plugin(die_at)}
    registry = Registry(plugins, installed=False)
    return Context(load_recipe(Path(recipe), registry), registry, RunDirectory(Path(root)))
