"""The network that a recipe names, with its weights where it brings some."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import overload

from jcw_core.errors import JcwError
from jcw_core.formats.network_file import read_model, read_network
from jcw_core.formats.weights_file import with_weights
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.network.operations import Shape
from jcw_core.protocols import Dataset
from jcw_core.recipe.recipe import NetworkOptions, Recipe
from jcw_core.registry import Registry
from jcw_core.space.whole import with_pruned_first

MODULE_SHAPE = (1, 3, 224, 224)
"""Of one image, for a torch module that is named on a command line when none is given."""


def network_of(recipe: Recipe, registry: Registry, data: Dataset) -> Network | Model:
    """The network at full width; a ``Model`` where the recipe brings weights.

    Raises:
        RecipeError: it cannot be made, or the weights do not fit; names the line and the key.
    """
    wanted, where = recipe.network, recipe.where.inside("network")
    key = next(key for key in ("backbone", "file", "module") if getattr(wanted, key))
    try:
        found = _source(recipe, registry, data)
    except JcwError as error:
        raise where.error(key, str(error), see=error.page or None) from None
    found = opened(found, wanted)
    if wanted.weights is None or isinstance(found, Model):
        return found
    try:
        return with_weights(found, wanted.weights, new_head=wanted.new_head)
    except JcwError as error:
        raise where.error("weights", str(error), see=error.page or None) from None


def _source(recipe: Recipe, registry: Registry, data: Dataset) -> Network | Model:
    wanted = recipe.network
    shape = wanted.shape[1:] or data.image_shape
    if not wanted.backbone:
        return brought(wanted, shape, recipe.path.parent)
    channels, height, width = shape
    built = registry.backbones[wanted.backbone].build(
        num_classes=len(data.classes),
        width=wanted.width,
        input_size=wanted.built_for or height,
        in_channels=channels,
    )
    return built.resized(height, width) if wanted.built_for else built


@overload
def opened(found: Model, wanted: NetworkOptions) -> Model: ...
@overload
def opened(found: Network | Model, wanted: NetworkOptions) -> Network | Model: ...
def opened(found: Network | Model, wanted: NetworkOptions) -> Network | Model:
    """The same, with its first convolution open to the search where the recipe wants it to be."""
    if not wanted.prune_first:
        return found
    if isinstance(found, Network):
        return with_pruned_first(found)
    return replace(found, network=with_pruned_first(found.network))


def brought(wanted: NetworkOptions, shape: Shape, folder: Path) -> Network | Model:
    """The network of a file or a module; a ``Model`` where either has its weights.

    Args:
        wanted: names one of the two.
        shape: (channels, height, width) of the input, for a module.
        folder: from which ``wanted.code`` leads to where modules are looked for first.
    """
    if wanted.module:
        return _from_module(wanted, shape, folder / wanted.code)
    assert wanted.file is not None
    if wanted.file.suffix.lower() == ".onnx":
        return read_model(wanted.file, wanted.shape or None, wanted.outputs)
    return read_network(wanted.file)


def _from_module(wanted: NetworkOptions, shape: Shape, folder: Path) -> Model:
    try:
        from jcw_core.formats.torch_import.named import model_of
    except ImportError:
        raise JcwError("torch modules need torch: pip install 'jcw-core[supernet]'") from None
    return model_of(wanted.module, shape, folder, wanted.weights, wanted.outputs)
