"""The network that a recipe names."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from jcw_core.network.model import Model
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.source import network_of
from jcw_core.space.space import prunable_layers


@pytest.mark.parametrize("asked", [False, True])
def test_the_first_convolution_is_pruned_where_a_recipe_asks_for_it(asked: bool, tmp_path: Path) -> None:
    recipe, registry = tmp_path / "recipe.toml", Registry()
    recipe.write_text(
        f'[network]\nbackbone = "resnet18"\nprune_first = {str(asked).lower()}\n\n[data]\nname = "cifar10"\npath = "c.zip"\n'
    )
    data = SimpleNamespace(image_shape=(3, 32, 32), classes=("a", "b"))
    found = network_of(load_recipe(recipe, registry), registry, data)  # type: ignore[arg-type]
    assert not isinstance(found, Model)
    assert ("conv1" in prunable_layers(found)) == asked
