"""A run without training: a network that brings its weights is pruned layer by layer, estimated and handed over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from retrain_samples import SMALL, WEIGHTS, Stripes, network, open_run, trained
from safetensors.numpy import save_file

from jcw_core.datasets.split import normalise
from jcw_core.errors import RecipeError
from jcw_core.formats.safetensors_file import load_model
from jcw_core.hookspecs import hookimpl
from jcw_core.network.architecture import Architecture
from jcw_core.network.weight_groups import weight_density
from jcw_core.post_training import removal
from jcw_core.post_training.database import Database
from jcw_core.protocols import Progress
from jcw_core.recipe.recipe import load_recipe
from jcw_core.run.context import Context
from jcw_core.run.pipeline import run
from jcw_core.run.records import BASELINE, MODELS, SUPERNET, ChosenModel
from jcw_core.supernet.options import SupernetOptions
from jcw_core.supernet.post_training import pruned_weights
from jcw_core.training import checkpoint
from jcw_core.training.execution import BatchNorm, execute

UNTRAINED = 'init = "supernet"\npretrain = { epochs = 0 }\nadmm = { epochs = 0 }\nfinetune = { epochs = 0 }'


@pytest.fixture
def opened(tmp_path: Path) -> Context:
    save_file(trained(), tmp_path / WEIGHTS)
    context, _ = open_run(tmp_path)
    text = (tmp_path / "recipe.toml").read_text()
    start, end = text.index("pretrain ="), text.index("[export]")
    (tmp_path / "recipe.toml").write_text(text[:start] + UNTRAINED + "\n" + text[end:])
    recipe = load_recipe(tmp_path / "recipe.toml", context.registry)
    return Context(recipe, context.registry, context.directory)


def test_models_are_handed_over_without_an_epoch(opened: Context) -> None:
    run(opened, "export")
    models = {m.id: m for m in ChosenModel.read_all(opened.path(MODELS))}
    assert len(models) == 4
    for chosen in models.values():
        model = load_model(opened.path(chosen.weights))
        for layer, density in chosen.architecture.densities.items():
            assert weight_density(model.weights[f"{layer}.weight"]) <= density + 0.05
    # The dense network is what was brought, in another order of channels.
    dense = load_model(opened.path(models[BASELINE].weights))
    wanted = pruned_weights(opened, Architecture({}, {}))
    for name in dense.network.parameter_shapes:
        np.testing.assert_allclose(dense.weights[name], wanted[name], rtol=1e-4, atol=1e-5)


def test_distance_is_none_for_the_dense_network_and_grows_as_it_is_pruned(opened: Context) -> None:
    run(opened, "supernet")
    space = opened.space
    architectures = [space.maximum, space.row(SMALL), space.low]
    evaluator = opened.registry.objectives["distance"].open(opened)
    found = evaluator.evaluate(space, np.stack(architectures))
    assert found[0] < 0.02
    assert found[0] < found[1] < found[2]
    assert not evaluator.begin_generation(np.stack(architectures), 1)
    again = evaluator.reevaluate(space, np.stack(architectures))
    assert again[0] < again[1] < again[2]


def test_error_and_loss_are_those_of_the_weights(opened: Context) -> None:
    run(opened, "supernet")
    space, row = opened.space, opened.space.row(SMALL)
    weights = {name: torch.from_numpy(array) for name, array in pruned_weights(opened, SMALL).items()}
    held = opened.dataset("validation")
    batch = torch.from_numpy(normalise(held.images(np.arange(len(held))), held))
    logits = execute(network(), weights, batch, BatchNorm(weights))
    labels = torch.from_numpy(held.labels)
    wanted = {
        "error": float((logits.argmax(1) != labels).float().mean()),
        "loss": float(torch.nn.functional.cross_entropy(logits, labels)),
    }
    for name, value in wanted.items():
        evaluator = opened.registry.objectives[name].open(opened)
        assert evaluator.evaluate(space, row[None])[0] == pytest.approx(value, rel=1e-4, abs=1e-6)


def test_a_network_without_weights_is_refused(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    text = (tmp_path / "recipe.toml").read_text().replace("epochs = 1\n", 'mode = "post-training"\n', 1)
    (tmp_path / "recipe.toml").write_text(text)
    recipe = load_recipe(tmp_path / "recipe.toml", context.registry)
    with pytest.raises(RecipeError, match=r"\[supernet\] mode: .* give network.weights"):
        run(Context(recipe, context.registry, context.directory), "supernet")


@pytest.mark.parametrize("importance", ["l1", "batch_norm_scale", "taylor"])
def test_channels_are_ordered_by_the_criterion_of_the_recipe(opened: Context, importance: str) -> None:
    run(opened, "supernet")
    before = pruned_weights(opened, SMALL)
    path = opened.recipe.path
    path.write_text(path.read_text().replace("[supernet]\n", f'[supernet]\nimportance = "{importance}"\n'))
    recipe = load_recipe(path, opened.registry)
    context = Context(recipe, opened.registry, opened.directory)
    run(context, "supernet")
    after = pruned_weights(context, SMALL)
    assert any(not np.array_equal(before[name], after[name]) for name in before)


def test_rows_are_rearranged_where_the_recipe_says_so(opened: Context) -> None:
    run(opened, "supernet")
    before = checkpoint.load(opened.path(SUPERNET))[0]
    path = opened.recipe.path
    path.write_text(path.read_text().replace("[supernet]\n", "[supernet]\nrearrange = true\n"))
    run(Context(load_recipe(path, opened.registry), opened.registry, opened.directory), "supernet")
    after = checkpoint.load(opened.path(SUPERNET))[0]
    assert not torch.equal(after["tensor.conv1.weight"], before["tensor.conv1.weight"])
    path.write_text(path.read_text().replace('mode = "post-training"', ""))
    with pytest.raises(RecipeError, match="rearrange does nothing where weights are trained"):
        load_recipe(path, opened.registry)


def test_a_criterion_that_is_not_there_is_refused(opened: Context) -> None:
    path = opened.recipe.path
    path.write_text(path.read_text().replace("[supernet]\n", '[supernet]\nimportance = "luck"\n'))
    recipe = load_recipe(path, opened.registry)
    with pytest.raises(
        RecipeError, match=r"\[supernet\] importance: unknown importance 'luck'; there is: batch"
    ):
        run(Context(recipe, opened.registry, opened.directory), "supernet")


def test_a_supernet_begins_with_the_weights_that_are_brought_in_order(opened: Context) -> None:
    path = opened.recipe.path
    table = 'init = "pretrained"\nimportance = "l1"\nepochs = 1\nbatch_size = 16\nlr = 0.0'
    path.write_text(path.read_text().replace('mode = "post-training"', table))
    context = Context(load_recipe(path, opened.registry), opened.registry, opened.directory)
    run(context, "supernet")
    tensors, _ = checkpoint.load(context.path(SUPERNET))
    images = torch.from_numpy(normalise(Stripes(160).images(np.arange(160)), Stripes(160)))
    given = {name: torch.from_numpy(array) for name, array in trained().items()}
    found, wanted = (execute(network(), weights, images, BatchNorm(weights)) for weights in (tensors, given))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    norms = tensors["conv2.weight"].abs().sum((1, 2, 3))
    assert torch.equal(norms, norms.sort(descending=True).values)


def test_a_supernet_without_weights_to_begin_with_is_refused(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    text = (tmp_path / "recipe.toml").read_text().replace("[supernet]\n", '[supernet]\ninit = "pretrained"\n')
    (tmp_path / "recipe.toml").write_text(text)
    recipe = load_recipe(tmp_path / "recipe.toml", context.registry)
    with pytest.raises(RecipeError, match=r"\[supernet\] init: .* give network.weights"):
        run(Context(recipe, context.registry, context.directory), "supernet")


def test_a_distance_needs_a_trained_network(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    assert context.options(SupernetOptions).mode == "continuous"
    with pytest.raises(RecipeError, match="post-training"):
        context.registry.objectives["distance"].open(context)


def test_pretrained_weights_that_are_not_there_are_refused(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path, 'init = "pretrained"')
    with pytest.raises(RecipeError, match=r"\[retrain\] init: 'pretrained'"):
        run(context, "retrain")


class Heard:
    """Keeps what is reported."""

    def __init__(self) -> None:
        self.details: list[str] = []

    @hookimpl
    def jcw_progress(self, event: Progress) -> None:
        if not event.total:
            self.details.append(event.detail)


@pytest.mark.parametrize(("images", "is_said"), [(2, True), (100, False)])
def test_too_few_images_for_the_statistics_of_a_layer_are_said(
    opened: Context, tmp_path: Path, images: int, is_said: bool
) -> None:
    text = (
        (tmp_path / "recipe.toml")
        .read_text()
        .replace("calibration_images = 100", f"calibration_images = {images}")
    )
    (tmp_path / "recipe.toml").write_text(text)
    context = Context(
        load_recipe(tmp_path / "recipe.toml", opened.registry), opened.registry, opened.directory
    )
    heard = Heard()
    opened.registry.add("heard", heard)
    run(context, "supernet")
    assert [detail for detail in heard.details if "images are few for" in detail and "fc" in detail] == (
        [
            f"{images} images are few for conv2, fc: their statistics are regularised; more images make better weights"
        ]
        if is_said
        else []
    )


def test_layers_that_are_too_large_for_the_surgeon_are_said(
    opened: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_MOST_INPUTS", 32)
    heard = Heard()
    opened.registry.add("heard", heard)
    run(opened, "supernet")
    said = [detail for detail in heard.details if "cheaper mask" in detail]
    grams = Database.load(opened.path(SUPERNET), opened.network).grams
    large = [layer for layer, gram in grams.items() if gram.ndim == 1]
    assert 0 < len(large) < len(grams)
    assert len(said) == 1
    assert said[0].startswith(f"the cheaper mask for {', '.join(large)}: ")


def test_a_dense_network_that_nobody_trains_keeps_its_statistics(opened: Context) -> None:
    """Its outputs are those of what was brought, whatever the calibration images say."""
    run(opened, "retrain")
    models = {m.id: m for m in ChosenModel.read_all(opened.path(MODELS))}
    dense = load_model(opened.path(models[BASELINE].weights))
    images = torch.from_numpy(
        np.random.default_rng(0).normal(size=(4, *network().input_shape)).astype(np.float32)
    )
    found, wanted = (
        execute(network(), tensors, images, BatchNorm(tensors))
        for tensors in (
            {n: torch.from_numpy(a) for n, a in arrays.items()} for arrays in (dense.weights, opened.weights)
        )
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
