"""Weights of a network that knew other classes: everything but the head is taken over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jcw_core.errors import FormatError, RecipeError
from jcw_core.formats.weights_file import with_weights
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.options import Location, parse
from jcw_core.recipe.recipe import NetworkOptions

safetensors = pytest.importorskip("safetensors.numpy")


def build(classes: int) -> Network:
    net = NetworkBuilder("net", (3, 8, 8))
    net.conv("conv", 8, 3)
    net.batch_norm("bn")
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("hidden", 6)
    net.linear("fc", classes)
    return net.build()


def saved(folder: Path, network: Network) -> tuple[Path, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    shapes = {**network.parameter_shapes, **network.buffer_shapes}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    safetensors.save_file(arrays, folder / "w.safetensors")
    return folder / "w.safetensors", arrays


def test_a_new_head_begins_with_zeros_and_the_rest_is_taken_over(tmp_path: Path) -> None:
    path, arrays = saved(tmp_path, build(1000))
    model = with_weights(build(10), path, new_head=True)
    for name, array in model.weights.items():
        expected = np.zeros_like(array) if name.startswith("fc.") else arrays[name]
        np.testing.assert_array_equal(array, expected)
    assert model.weights["fc.weight"].shape == (10, 6)
    with pytest.raises(FormatError, match=r"'fc.weight' is \(1000, 6\), expected \(10, 6\)"):
        with_weights(build(10), path)


def test_a_file_without_a_head_does_as_well_and_other_layers_must_fit(tmp_path: Path) -> None:
    path, arrays = saved(tmp_path, build(1000))
    safetensors.save_file({n: a for n, a in arrays.items() if not n.startswith("fc.")}, path)
    with_weights(build(10), path, new_head=True)
    safetensors.save_file(arrays | {"hidden.weight": np.zeros((5, 8), np.float32)}, path)
    with pytest.raises(FormatError, match=r"'hidden\.weight' is"):
        with_weights(build(10), path, new_head=True)


def test_only_a_linear_layer_is_a_head(tmp_path: Path) -> None:
    net = NetworkBuilder("maps", (3, 8, 8))
    net.conv("conv", 8, 3)
    path, _ = saved(tmp_path, net.build())
    with pytest.raises(FormatError, match=r"ends in 'conv' \(conv2d\), and only a linear layer is a head"):
        with_weights(net.build(), path, new_head=True)


@pytest.mark.parametrize("table", [{"backbone": "resnet18"}, {"file": "net.json", "weights": "w.pth"}])
def test_a_new_head_is_for_a_backbone_with_weights(table: dict[str, str]) -> None:
    with pytest.raises(RecipeError, match="give backbone and weights"):
        parse(NetworkOptions, {**table, "new_head": True}, Location(Path("recipe.toml")))


def test_strides_are_chosen_by_a_backbone_alone() -> None:
    with pytest.raises(RecipeError, match="built_for is for a backbone"):
        parse(NetworkOptions, {"file": "net.json", "built_for": 224}, Location(Path("recipe.toml")))
