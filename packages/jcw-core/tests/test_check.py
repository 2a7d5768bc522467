"""Before its first stage, a run opens the images that its stages will read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import jcw_core.plugin
from jcw_core.datasets.memory import MemoryDataset
from jcw_core.errors import DataError, RecipeError
from jcw_core.hookspecs import hookimpl
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run import records
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import check

RECIPE = """\
[network]
backbone = "resnet18"

[data]
name = "half"
holdout = 2
"""


class Half:
    """Images to train on and none to test with."""

    name = "half"

    @dataclass(frozen=True)
    class Options:
        pass

    options = Options

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, split: str, options: Any) -> MemoryDataset:
        self.opened.append(split)
        if split == "test":
            raise DataError("there are no test images")
        pixels = np.zeros((8, 3, 16, 16), np.uint8)
        return MemoryDataset(("a", "b"), (0.5,) * 3, (0.5,) * 3, pixels, np.arange(8) % 2)

    @hookimpl
    def jcw_register_datasets(self) -> list[Half]:
        return [self]


def test_only_a_run_that_measures_the_test_error_needs_test_images(tmp_path: Path) -> None:
    recipe, data = tmp_path / "recipe.toml", Half()
    recipe.write_text(RECIPE)
    registry = Registry({"core": jcw_core.plugin, "half": data}, installed=False)
    context = Context(load_recipe(recipe, registry), registry, RunDirectory(tmp_path / "run"))
    train = SimpleNamespace(makes=(records.FRONT,))
    check(context, [train])
    with pytest.raises(RecipeError, match=r"recipe\.toml:4: \[data\]: there are no test images"):
        check(context, [train, SimpleNamespace(makes=(records.EVALUATION,))])
    assert data.opened == ["train", "test"]
