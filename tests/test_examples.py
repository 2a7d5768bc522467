"""The recipes in ``examples``: each reads, and asks of its network only what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from jcw_core.recipe.recipe import Recipe, load_recipe
from jcw_core.registry import Registry
from jcw_core.space import SearchSpace

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.toml"))


def read(path: Path) -> tuple[Recipe, Registry]:
    registry = Registry()
    return load_recipe(path, registry), registry


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_a_recipe(path: Path) -> None:
    recipe, registry = read(path)
    if recipe.network.backbone:
        size = getattr(recipe.data.options, "size", 32)
        network = registry.backbones[recipe.network.backbone].build(
            width=recipe.network.width, input_size=size
        )
        SearchSpace.of(network, recipe.space.bounds)
    for table in (recipe.network, recipe.data.options):
        for key in ("path", "weights"):
            place = getattr(table, key, None)
            # Relative to the recipe, as nobody else has another's folders.
            assert place is None or place.is_relative_to(path.parent.resolve())


@pytest.mark.parametrize("name", ["mobilenet_v2_imagenet", "efficientnet_lite0_imagenet"])
def test_no_label_is_looked_at_and_no_image_that_is_scored(name: str) -> None:
    recipe, _ = read(next(path for path in EXAMPLES if path.stem == name))
    assert (recipe.data.options.train_classes, recipe.data.options.test_classes) == ("::2", "1::2")
    assert recipe.stages["search"].objectives == ("latency", "distance")
    retrain = recipe.stages["retrain"]
    assert [phase.epochs for phase in (retrain.pretrain, retrain.admm, retrain.finetune)] == [0, 0, 0]


def test_transfer_trains_on_what_the_search_does_not_see() -> None:
    recipe, _ = read(next(path for path in EXAMPLES if path.stem == "transfer_cifar10"))
    assert (recipe.split.holdout, recipe.stages["retrain"].hold_out, recipe.network.new_head) == (
        5000,
        True,
        True,
    )
