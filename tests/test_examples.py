"""The recipes in ``examples``: each reads, and asks of its network only what there is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import jcw
from PIL import Image
from several import launch

from jcw_core.recipe.recipe import Recipe, load_recipe
from jcw_core.registry import Registry
from jcw_core.space import SearchSpace
from jcw_retrain.options import phases

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.toml"))


def load(path: Path) -> tuple[Recipe, Registry]:
    registry = Registry()
    return load_recipe(path, registry), registry


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_a_recipe(path: Path) -> None:
    recipe, registry = load(path)
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
    recipe, _ = load(next(path for path in EXAMPLES if path.stem == name))
    assert (recipe.data.options.train_classes, recipe.data.options.test_classes) == ("::2", "1::2")
    assert recipe.stages["search"].objectives == ("latency", "distance")
    retrain = recipe.stages["retrain"]
    assert [phase.epochs for phase in (retrain.pretrain, retrain.admm, retrain.finetune)] == [0, 0, 0]


def test_transfer_trains_on_what_the_search_does_not_see() -> None:
    recipe, _ = load(next(path for path in EXAMPLES if path.stem == "transfer_cifar10"))
    assert (recipe.split.holdout, recipe.stages["retrain"].hold_out, recipe.network.new_head) == (
        5000,
        True,
        True,
    )


@pytest.fixture(scope="module")
def some_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of made images, laid out as ImageNet is."""
    folder, rng = tmp_path_factory.mktemp("imagenet"), np.random.default_rng(0)
    for split, count in (("train", 12), ("val", 2)):
        for label in ("n01", "n02", "n03"):
            (folder / split / label).mkdir(parents=True)
            for number in range(count):
                pixels = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / label / f"{number}.JPEG")
    return folder


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2"])
def test_the_paper_s_recipes_train(name: str, some_images: Path, tmp_path: Path) -> None:
    """A step of the supernet in two processes, on some of the classes; the rest of the work is told without doing it."""
    recipe = next(path for path in EXAMPLES if path.stem == f"imagenet_{name}")
    read, _ = load(recipe)
    stages = read.stages
    assert (stages["supernet"].epochs, stages["supernet"].warmup_epochs) == (30, 10)
    assert (stages["search"].population, stages["search"].generations) == (64, 128)
    assert phases(stages["retrain"], name).epochs == (370 if name == "mobilenet_v2" else 240)
    small = {
        "run.threads": 1, "network.width": 0.1, "data.path": some_images, "data.size": 32, "data.resize": 36,
        "data.search_classes": 2, "data.search_per_class": 10, "data.holdout": 4,
        "supernet.epochs": 2, "supernet.warmup_epochs": 1, "supernet.batch_size": 16,
    }  # fmt: skip
    given = [f"--set={key}={value}" for key, value in small.items()]
    plan = jcw("run", str(recipe), "--dry-run", *given, cwd=tmp_path)
    assert plan.returncode == 0, plan.stderr
    assert "population 64 x 128 generations" in plan.stdout
    done = launch("-m", "jcw_core", "run", str(recipe), "--until", "supernet", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / recipe.stem / "supernet.safetensors").is_file()
