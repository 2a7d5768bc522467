"""The stage ``export``: every model in every format of the recipe."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from core_networks import random_weights, small_resnet
from numpy.typing import NDArray

import jcw_core.plugin
from jcw_core.datasets.memory import MemoryDataset
from jcw_core.errors import PluginError, RecipeError
from jcw_core.formats.onnx_reader import read_onnx
from jcw_core.formats.safetensors_file import SafetensorsExporter, load_model
from jcw_core.hookspecs import hookimpl
from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.model import Model
from jcw_core.protocols import Calibration, WeightType
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.export import image_input
from jcw_core.run.pipeline import run
from jcw_core.run.records import EXPORTS, MODELS, ChosenModel, read_exports

pytest.importorskip("safetensors", reason="pip install 'jcw-core[safetensors]'")
NETWORK = small_resnet(width=8)
CLASSES = tuple(f"class {label}" for label in range(NETWORK.num_classes))


class Trained:
    """Stands in for retraining: two models with random weights."""

    name, section, options, reads, makes = "trained", "", None, (), (MODELS,)

    def needs(self, run: Any) -> tuple[str, ...]:
        return ()

    def run(self, run: Any) -> Sequence[str]:
        models = []
        for seed, name in enumerate(("baseline", "m1")):
            weights = f"models/{name}/weights.safetensors"
            model = Model(NETWORK, random_weights(NETWORK, np.random.default_rng(seed)))
            SafetensorsExporter().export(model, run.path(weights))
            models.append(ChosenModel(name, Architecture({}, {}), None, None, None, 1, weights))
        ChosenModel.write_all(run.path(MODELS), models)
        return [model.weights for model in models]

    @hookimpl
    def jcw_register_stages(self) -> list[Trained]:
        return [self]


class Grey:
    """Images of which only what is known of them is asked for."""

    name = "grey"

    @dataclass(frozen=True)
    class Options:
        pass

    options = Options

    def open(self, split: str, options: Options) -> Any:
        channels = NETWORK.input_shape[0]
        pixels = np.full((8, *NETWORK.input_shape), 128, np.uint8)
        labels = np.zeros(8, np.int64)
        return MemoryDataset(CLASSES, (0.25,) * channels, (0.5,) * channels, pixels, labels, resize=99)

    @hookimpl
    def jcw_register_datasets(self) -> list[Grey]:
        return [self]


class Host:
    """A device that is this machine."""

    name = "host"

    @dataclass(frozen=True)
    class Options:
        pass

    options = Options

    def open(self, options: Options) -> Any:
        raise NotImplementedError

    @hookimpl
    def jcw_register_devices(self) -> list[Host]:
        return [self]


def context_of(folder: Path, formats: str) -> Context:
    recipe = folder / "recipe.toml"
    recipe.write_text(
        f'[network]\nfile = "net.json"\n[data]\nname = "grey"\nholdout = 2\n[export]\nformats = {formats}\n'
    )
    (folder / "net.json").write_text(NETWORK.to_json())
    plugins = {"core": jcw_core.plugin, "trained": Trained(), "data": Grey(), "device": Host()}
    registry = Registry(plugins, installed=False)
    return Context(load_recipe(recipe, registry), registry, RunDirectory(folder / "run"))


def test_every_model_is_written_in_every_format(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="pip install 'jcw-core[onnx]'")
    context = context_of(tmp_path, '["safetensors", "onnx"]')
    run(context, "export")
    exports = read_exports(context.path(EXPORTS))
    assert exports == {
        name: {"safetensors": f"models/{name}/model.safetensors", "onnx": f"models/{name}/model.onnx"}
        for name in ("baseline", "m1")
    }
    for chosen in ChosenModel.read_all(context.path(MODELS)):
        trained = load_model(context.path(chosen.weights))
        found = load_model(context.path(exports[chosen.id]["safetensors"]))
        assert found.network == trained.network
        assert found.images is not None
        assert (found.images.classes, found.images.resize) == (CLASSES, 99)
        assert (set(found.images.mean), set(found.images.std)) == ({0.25}, {0.5})
        for name, array in trained.weights.items():
            np.testing.assert_array_equal(found.weights[name], array)
        onnx_file = context.path(exports[chosen.id]["onnx"])
        assert read_onnx(onnx_file).parameter_shapes.keys() == trained.network.parameter_shapes.keys()


def test_a_format_that_is_not_installed_is_named_before_any_work(tmp_path: Path) -> None:
    context = context_of(tmp_path, '["safetensors", "jcw"]')
    with pytest.raises(PluginError, match="unknown exporter 'jcw'; install jcw-kernels"):
        run(context, "export")
    assert not context.path(MODELS).exists()


class Halving:
    """An exporter that leaves a choice of what weights are stored as."""

    name, suffix = "halving", ".txt"

    def __init__(self, weights: Literal["auto", WeightType] = "auto") -> None:
        self.weights = weights

    def storing(self, weights: WeightType) -> Halving:
        return Halving(weights)

    def export(self, model: Model, path: Path) -> None:
        path.write_text(self.weights)

    @hookimpl
    def jcw_register_exporters(self) -> list[Halving]:
        return [self]


@pytest.mark.parametrize("weights", ["auto", "float32", "float16"])
def test_weights_are_stored_as_the_recipe_says_where_a_format_leaves_a_choice(
    weights: str, tmp_path: Path
) -> None:
    context = context_of(tmp_path, f'["halving", "safetensors"]\nweights = "{weights}"')
    context.registry.add("halving", Halving())
    run(context, "export")
    assert context.path("models/m1/model.txt").read_text() == weights
    found = load_model(context.path("models/m1/model.safetensors"))
    assert {array.dtype for array in found.weights.values()} == {np.dtype(np.float32)}


class Rounding:
    """An exporter that leaves a choice of what its files compute with."""

    name, suffix = "rounding", ".txt"

    def __init__(
        self, images: NDArray[np.float32] | None = None, half: bool = False, how: Calibration | None = None
    ) -> None:
        self.images = images
        self.half = half
        self.how = how

    def in_half_precision(self) -> Rounding:
        return Rounding(half=True)

    def calibrated(self, images: NDArray[np.float32], how: Calibration | None = None) -> Rounding:
        return Rounding(images, how=how)

    def export(self, model: Model, path: Path) -> None:
        if self.half:
            path.write_text("float16")
        else:
            path.write_text(
                "" if self.images is None else repr((self.images.shape, float(self.images.max())))
            )
        path.with_suffix(".how").write_text(repr(self.how))

    @hookimpl
    def jcw_register_exporters(self) -> list[Rounding]:
        return [self]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", ""),
        ('precision = "int8"', (8, (128 / 255 - 0.25) / 0.5)),
        ('precision = "int8"\ncalibration_images = 4', (4, (128 / 255 - 0.25) / 0.5)),
        ('precision = "int8"\nnormalise = true', (8, 128.0)),
    ],
)
def test_files_that_compute_with_whole_numbers_are_calibrated_on_training_images(
    settings: str, expected: Any, tmp_path: Path
) -> None:
    context = context_of(tmp_path, f'["rounding", "safetensors"]\n{settings}')
    context.registry.add("rounding", Rounding())
    run(context, "export")
    found = context.path("models/m1/model.txt").read_text()
    if not expected:
        assert found == ""
        return
    (count, *shape), largest = ast.literal_eval(found)
    assert (count, tuple(shape)) == (expected[0], NETWORK.input_shape)
    assert largest == pytest.approx(expected[1], rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "how"),
    [
        ("", Calibration("mse", 0.05, "bytes")),
        ('calibration = "minmax"\ncalibration_error = 0.5', Calibration("minmax", 0.5, "bytes")),
        ('products = "pairs"', Calibration("mse", 0.05, "pairs")),
        ('[device]\nname = "host"', Calibration("mse", 0.05, None)),
        ('products = "none"\n[device]\nname = "host"', Calibration("mse", 0.05, "none")),
    ],
)
def test_the_recipe_says_how_whole_numbers_are_chosen(
    settings: str, how: Calibration, tmp_path: Path
) -> None:
    """And for which processor: for this one, where it is the device."""
    context = context_of(tmp_path, f'["rounding"]\nprecision = "int8"\n{settings}')
    context.registry.add("rounding", Rounding())
    run(context, "export")
    assert context.path("models/m1/model.how").read_text() == repr(how)


def test_files_that_compute_in_half_precision_need_no_images(tmp_path: Path) -> None:
    context = context_of(tmp_path, '["rounding", "safetensors"]\nprecision = "float16"')
    context.registry.add("rounding", Rounding())
    run(context, "export")
    assert context.path("models/m1/model.txt").read_text() == "float16"


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_a_precision_that_no_format_computes_with_is_refused_before_any_work(
    precision: str, tmp_path: Path
) -> None:
    context = context_of(tmp_path, f'["safetensors"]\nprecision = "{precision}"')
    with pytest.raises(
        RecipeError, match=rf"export\.precision is '{precision}'.*add 'jcw' to export\.formats"
    ):
        run(context, "export")
    assert not context.path(MODELS).exists()


def test_weights_that_no_format_stores_are_refused_before_any_work(tmp_path: Path) -> None:
    context = context_of(tmp_path, '["safetensors"]\nweights = "float16"')
    with pytest.raises(RecipeError, match=r"export\.weights is 'float16'.*add 'jcw' to export\.formats"):
        run(context, "export")
    assert not context.path(MODELS).exists()


def test_files_that_normalise_are_told_to_take_pixels(tmp_path: Path) -> None:
    context = context_of(tmp_path, '["safetensors"]\nnormalise = true')
    run(context, "export")
    found = load_model(context.path("models/m1/model.safetensors"))
    assert found.images is not None
    assert found.images.takes_pixels
    assert found.images.classes == CLASSES


@pytest.mark.parametrize(
    ("last", "label", "is_named"), [("relu", -1, True), ("sigmoid", -1, False), ("sigmoid", 1, True)]
)
def test_classes_are_named_where_there_are_any(last: str, label: int, is_named: bool) -> None:
    """Images without labels have a name for each value of the output, whatever it is of."""
    net = NetworkBuilder("net", (1, 2, 2))
    net.add("flat", "flatten")
    net.linear("fc", 3)
    net.add("last", last)
    names = ("a", "b", "c")
    data = SimpleNamespace(
        mean=[0.5], std=[0.5], image_shape=(1, 2, 2), classes=names, labels=np.full(4, label)
    )
    made = image_input(SimpleNamespace(dataset=lambda split: data, network=net.build(), input_name="x"))
    assert made.classes == (names if is_named else ())
