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
from jcw_core.run.checks import available_cores, check
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory

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


class Slow:
    """A device with something to say."""

    name = "slow"
    options = Half.Options

    def open(self, options: Any) -> Any:
        raise NotImplementedError

    def advise(self, options: Any) -> list[str]:
        return ["it is slow"]

    @hookimpl
    def jcw_register_devices(self) -> list[Slow]:
        return [self]


@dataclass(frozen=True)
class Rounding:
    """Options of a device that times layers in another precision."""

    precision: str = "float32"


class Rough(Slow):
    """A device that does."""

    options = Rounding

    def advise(self, options: Rounding) -> tuple[str, ...]:  # type: ignore[override]
        return ()


@pytest.mark.parametrize(("timed", "exported"), [("float32", "int8"), ("int8", "float32"), ("int8", "int8")])
def test_other_files_than_are_predicted_for_are_noted(tmp_path: Path, timed: str, exported: str) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'{RECIPE}[device]\nname = "slow"\nprecision = "{timed}"\n[export]\nprecision = "{exported}"\n'
    )
    registry = Registry({"core": jcw_core.plugin, "half": Half(), "slow": Rough()}, installed=False)
    notes = check(Context(load_recipe(recipe, registry), registry, RunDirectory(tmp_path / "run")), [])
    assert notes == (
        []
        if timed == exported
        else [
            f"device.precision is '{timed}' and export.precision '{exported}': latencies are predicted for the former, "
            "and measured of files of the latter"
        ]
    )


@pytest.mark.parametrize("threads", [1, available_cores(), available_cores() + 1, 1024])
def test_threads_beyond_the_processors_and_what_devices_advise_are_noted(
    tmp_path: Path, threads: int
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'{RECIPE}[run]\nthreads = {threads}\n[device]\nname = "slow"\n')
    registry = Registry({"core": jcw_core.plugin, "half": Half(), "slow": Slow()}, installed=False)
    notes = check(Context(load_recipe(recipe, registry), registry, RunDirectory(tmp_path / "run")), [])
    assert [note for note in notes if note.startswith(f"run.threads = {threads}, ")] == notes[:-1]
    assert len(notes) == 1 + (threads > available_cores())
    assert notes[-1] == "it is slow"
