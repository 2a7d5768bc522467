"""Whole backbones, and the same bits at any number of threads."""

from __future__ import annotations

import kernel_reference as reference
import numpy as np
import pytest
from kernel_samples import poisoned, weights_for

from jcw_core.backbones.mobilenet_v1 import MOBILENET_V1
from jcw_core.backbones.mobilenet_v2 import MOBILENET_V2
from jcw_core.backbones.resnet import RESNET18
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.model import Model
from jcw_core.protocols import Backbone
from jcw_kernels import compile_model

BACKBONES = [RESNET18, MOBILENET_V1, MOBILENET_V2]


def small_model(backbone: Backbone, size: int, density: float, rng: np.random.Generator) -> Model:
    network = backbone.build(num_classes=10, width=0.25, input_size=size)
    arrays = weights_for(network, rng, density)
    for array in arrays.values():
        if array.ndim == 4:
            array *= np.float32(1 / np.sqrt(array[0].size * density))
    return Model(network, arrays)


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda b: b.name)
@pytest.mark.parametrize(("size", "density"), [(28, 0.3), (64, 1.0), (33, 0.1)])
def test_backbones(backbone: Backbone, size: int, density: float, isa: str, rng: np.random.Generator) -> None:
    model = small_model(backbone, size, density, rng)
    images = rng.standard_normal((2, 3, size, size), dtype=np.float32)
    got = compile_model(model, isa=isa).run(images)
    want = np.stack([reference.run(model.network, model.weights, image) for image in images])
    assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda b: b.name)
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_give_the_same_bits(backbone: Backbone, threads: int, rng: np.random.Generator) -> None:
    model = small_model(backbone, 56, 0.3, rng)
    images = rng.standard_normal((2, 3, 56, 56), dtype=np.float32)
    alone = compile_model(model).run(images)
    together = compile_model(model, threads=threads)
    for _ in range(3):
        assert together.run(images).tobytes() == alone.tobytes()


def test_images_do_not_disturb_each_other(rng: np.random.Generator) -> None:
    model = small_model(MOBILENET_V2, 40, 0.5, rng)
    images = rng.standard_normal((3, 3, 40, 40), dtype=np.float32)
    program = compile_model(model)
    batch = program.run(images)
    for i in (2, 0, 1):
        assert program.run(images[i : i + 1])[0].tobytes() == batch[i].tobytes()


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda b: b.name)
def test_tensors_that_share_memory(backbone: Backbone, isa: str, rng: np.random.Generator) -> None:
    # 96 pixels: planes large enough for other layouts to take their place.
    model = small_model(backbone, 96, 0.5, rng)
    image = 1e3 * rng.standard_normal((1, 3, 96, 96), dtype=np.float32)
    want = reference.run(model.network, model.weights, image[0])
    for threads in (1, 2):
        got = poisoned(compile_model(model, isa=isa, threads=threads), image)
        assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()


@pytest.mark.parametrize("size", [(60, 61), (61, 60), (61, 61)])
def test_odd_sizes_that_share_memory(size: tuple[int, int], isa: str, rng: np.random.Generator) -> None:
    """Of planes split by a stride, some have a row or a column less."""
    b = NetworkBuilder("net", (3, *size))
    for i, (width, stride) in enumerate([(40, 1), (24, 1), (48, 2)]):
        b.conv(f"conv{i}", width, 3, stride=stride)
    network = b.build()
    arrays = weights_for(network, rng)
    image = rng.standard_normal((1, 3, *size), dtype=np.float32)
    want = reference.run(network, arrays, image[0])
    for threads in (1, 2):
        got = poisoned(compile_model(Model(network, arrays), isa=isa, threads=threads), image)
        assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("stride", [1, 2])
def test_full_rows_that_share_memory(stride: int, isa: str, rng: np.random.Generator) -> None:
    """No vector of a strip reaches the padding between such rows."""
    b = NetworkBuilder("net", (3, 64, 64))
    b.conv("first", 24, 3)
    b.conv("wide", 40, 1)
    b.depthwise("depthwise", 3, stride=stride)
    b.conv("narrow", 24, 3)
    b.conv("last", 16, 3)
    network = b.build()
    arrays = weights_for(network, rng)
    image = rng.standard_normal((1, 3, 64, 64), dtype=np.float32)
    want = reference.run(network, arrays, image[0])
    for threads in (1, 2):
        got = poisoned(compile_model(Model(network, arrays), isa=isa, threads=threads), image)
        assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


def test_buffers_are_reused(rng: np.random.Generator) -> None:
    model = small_model(MOBILENET_V1, 64, 1.0, rng)
    everything = sum(4 * np.prod(shape) for shape in model.network.shapes.values())
    assert compile_model(model).memory_bytes < 0.7 * everything


def test_layouts_share_memory(rng: np.random.Generator) -> None:
    # Much less than two buffers for every layout would take.
    model = small_model(MOBILENET_V2, 224, 1.0, rng)
    assert compile_model(model).memory_bytes < 2.5 * max(
        4 * np.prod(shape) for shape in model.network.shapes.values()
    )
