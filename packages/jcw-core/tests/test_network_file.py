"""``[network] file`` of a recipe: a network as JSON or as an ONNX file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import model, rich_model, step

from jcw_core.datasets.memory import MemoryDataset
from jcw_core.errors import RecipeError
from jcw_core.formats.network_file import SUFFIXES, read_network
from jcw_core.formats.onnx_reader import read_onnx
from jcw_core.hookspecs import hookimpl
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory


class Noise:
    """Images of the size and classes of ``rich_model``."""

    name = "noise"

    @dataclass(frozen=True)
    class Options:
        pass

    options = Options

    def open(self, split: str, options: Any) -> MemoryDataset:
        pixels = np.zeros((20, 4, 6, 6), np.uint8)
        return MemoryDataset(tuple("0123456789"), (0.5,) * 4, (0.5,) * 4, pixels, np.arange(20) % 10)

    @hookimpl
    def jcw_register_datasets(self) -> list[Noise]:
        return [self]


def context_of(folder: Path, file: str) -> Context:
    recipe = folder / "recipe.toml"
    recipe.write_text(f'[network]\nfile = "{file}"\n[data]\nname = "noise"\nholdout = 10\n')
    registry = Registry({"noise": Noise()}, installed=False)
    return Context(load_recipe(recipe, registry), registry, RunDirectory(folder / "run"))


@pytest.mark.parametrize("name", ["net.onnx", "NET.ONNX", "net.json", "net"])
def test_a_recipe_names_a_file_of_either_kind(tmp_path: Path, name: str) -> None:
    (tmp_path / "net.onnx").write_bytes(rich_model())
    network = read_onnx(tmp_path / "net.onnx")
    is_onnx = name.lower().endswith(".onnx")
    (tmp_path / name).write_bytes(rich_model() if is_onnx else network.to_json().encode())
    found = context_of(tmp_path, name)
    assert found.network == read_network(tmp_path / name)
    assert [node.op for node in found.network] == [node.op for node in network]
    assert found.space.dimensions > 0


def test_a_file_that_cannot_be_read_is_named_with_its_line(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        (tmp_path / f"net{suffix}").write_bytes(b"nothing")
        with pytest.raises(RecipeError, match=rf"recipe\.toml:2: \[network\] file: .*net\{suffix}: "):
            _ = context_of(tmp_path, f"net{suffix}").network


def test_a_network_of_other_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(model([step("Relu", "x")], shape=("n", 3, 6, 6)).SerializeToString())
    with pytest.raises(RecipeError, match=r"\[network\] file: .*the data has \(4, 6, 6\) and 10"):
        _ = context_of(tmp_path, "net.onnx").network
