"""Where a run trains, and what is said where it cannot. No test here needs a GPU."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from supernet_samples import Blobs, residual
from torch import Tensor

import jcw_core.plugin
from jcw_core.errors import JcwError, RecipeError
from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import plan
from jcw_core.supernet.evaluation import score_network, score_subnetwork
from jcw_core.training import pace
from jcw_core.training.accelerator import arithmetic_of, lanes, scoring_within_memory, training_within_memory
from jcw_core.training.batches import FixedImages, TrainingImages
from jcw_core.training.execution import BatchNorm, Tensors, execute
from jcw_core.training.loop import Training
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic, Augmentation, TrainingOptions

ASKED = Arithmetic("fp32", channels_last=False)


def run_with(folder: Path, accelerator: str) -> Context:
    tables = {
        "run": f'accelerator = "{accelerator}"',
        "network": 'backbone = "resnet18"',
        "data": 'name = "fashion_mnist"\npath = "images"',
    }
    recipe = folder / "recipe.toml"
    recipe.write_text("\n".join(f"[{name}]\n{keys}" for name, keys in tables.items()))
    registry = Registry({"core": jcw_core.plugin}, installed=False)
    return Context(load_recipe(recipe, registry), registry, RunDirectory(folder / "run"))


@pytest.mark.parametrize(
    ("accelerator", "gpus", "local_rank", "device"),
    [
        ("auto", 0, 0, "cpu"),
        ("cpu", 0, 0, "cpu"),
        ("auto", 2, 0, "cuda:0"),
        ("auto", 2, 1, "cuda:1"),
        ("cuda", 2, 3, "cuda:1"),
        ("cpu", 2, 1, "cpu"),
    ],
)
def test_the_device_is_the_one_that_is_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    accelerator: str,
    gpus: int,
    local_rank: int,
    device: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setenv("LOCAL_RANK", str(local_rank))
    found = arithmetic_of(run_with(tmp_path, accelerator), ASKED)
    assert found == (ASKED if device == "cpu" else Arithmetic("bf16", channels_last=True, device=device))


def test_a_gpu_that_is_not_there_is_told_before_the_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    context = run_with(tmp_path, "cuda")
    with pytest.raises(
        RecipeError, match=r"\[run\] accelerator: 'cuda' asks for a GPU, and torch .* finds none"
    ):
        plan(context, "supernet")


GIB = 2**30


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A stand-in's memory, of which the function that is handed out says how many GiB other programs leave of 80."""

    def leave(free: float) -> None:
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (round(free * GIB), 80 * GIB))

    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    leave(79)
    return leave


class Memory:
    """A step that has room for ``images``, and remembers whether what did not fit was still held when it was tried."""

    def __init__(self, images: int) -> None:
        self.images, self.tried, self.held = images, list[int](), list[weakref.ref[Tensor]]()

    def step(self, count: int) -> Tensor:
        assert all(ref() is None for ref in self.held), "what did not fit is held"
        self.tried.append(count)
        activations = torch.zeros(count)
        self.held.append(weakref.ref(activations))
        if count > self.images:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return activations.sum()


@pytest.mark.parametrize(
    ("size", "processes", "room", "named"),
    [(256, 1, 200, 160), (256, 1, 240, 224), (256, 1, 33, 16), (257, 4, 40, 128), (16, 1, 3, 2), (5, 2, 2, None),
     (2, 1, 0, None), (256, 1, 2, None)],
)  # fmt: skip
@pytest.mark.usefixtures("gpu")
def test_a_batch_that_is_too_large_is_told_with_one_that_fits(
    size: int, processes: int, room: int, named: int | None
) -> None:
    memory = Memory(room)
    guarded = training_within_memory("supernet.batch_size", size, ASKED, memory.step, processes)
    with pytest.raises(JcwError) as error, guarded:
        memory.step(-(-size // processes))
    said = str(error.value)
    assert f"batch of {size} does not fit in the memory of the GPU (CUDA out of memory)" in said
    assert "\n" not in said
    assert "other programs" not in said
    if named is None:
        assert "nor does one of 2 images" in said
    else:
        assert f"give supernet.batch_size = {named}, of which a trial step has fitted" in said
        assert named // processes < memory.tried[-1] <= room, "some is left for what a training needs more"


def test_what_other_programs_have_of_a_gpu_is_told(gpu: Callable[[float], None]) -> None:
    gpu(20)
    said = "of whose 80 GiB other programs have 60; end other programs"
    with pytest.raises(JcwError, match=said), scoring_within_memory(128, ASKED):
        raising()


@pytest.mark.usefixtures("gpu")
def test_a_training_that_does_not_fit_tries_smaller_steps(tmp_path: Path) -> None:
    def loss(module: Slimmable, images: Tensor, labels: Tensor) -> Tensor:
        if len(images) > 12:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return torch.nn.functional.cross_entropy(module(images), labels)

    module = Slimmable(residual(), np.random.default_rng(0))
    images = TrainingImages(Blobs(40), Augmentation(), ASKED)
    options, key = TrainingOptions(epochs=1, batch_size=20, lr=0.1), "retrain.admm.batch_size"
    path = tmp_path / "c"
    training = Training(module, images, options, ASKED, np.random.default_rng, path, criterion=loss, key=key)
    with pytest.raises(JcwError, match=r"a batch of 20 .*; give retrain\.admm\.batch_size = 10, of which"):
        training.run()
    replace(training, options=replace(options, batch_size=10)).run()
    assert path.is_file()


def raising(*_: object, **__: object) -> Any:
    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


@pytest.mark.parametrize("what", ["calibration", "evaluation of a sub-network", "evaluation"])
@pytest.mark.usefixtures("gpu")
def test_scoring_that_does_not_fit_is_told(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, images = (
        Slimmable(residual(), np.random.default_rng(0)),
        FixedImages(Blobs(8), np.arange(8), 4, ASKED),
    )
    monkeypatch.setattr(
        f"jcw_core.supernet.{'calibration' if what == 'calibration' else 'evaluation'}.execute", raising
    )
    score: Callable[[], object] = partial(
        score_subnetwork, module, Architecture({}, {}), images, images, ASKED
    )
    if what == "evaluation":
        score = partial(score_network, module, images, ASKED)
    with pytest.raises(
        JcwError, match=r"128 images at a time do not fit .* give \[run\] accelerator = \"cpu\""
    ):
        score()


@pytest.mark.parametrize(("room", "taken"), [(64, 64), (20, 16), (4, 4)])
def test_a_pace_is_measured_with_what_fits(monkeypatch: pytest.MonkeyPatch, room: int, taken: int) -> None:
    sizes = []

    def step(network: Network, tensors: Tensors, images: Tensor, norm: BatchNorm) -> Tensor:
        if len(images) > room:
            raising()
        sizes.append(len(images))
        return execute(network, tensors, images, norm)

    monkeypatch.setattr(pace, "execute", step)
    assert pace.seconds_per_image.__wrapped__(residual(), ASKED, 1) > 0
    assert set(sizes) == {taken}


@pytest.mark.usefixtures("gpu")
def test_a_pace_that_nothing_fits_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "execute", raising)
    with pytest.raises(JcwError, match="4 images at a time do not fit"):
        pace.seconds_per_image.__wrapped__(residual(), ASKED, 1)


def test_a_gpu_computes_one_network_at_a_time() -> None:
    assert [lanes(replace(ASKED, device=device), 8) for device in ("cpu", "cuda:1")] == [8, 1]


def test_batches_are_made_where_networks_compute() -> None:
    there = Arithmetic(channels_last=True, device="meta")
    fixed = FixedImages(Blobs(20), np.arange(8), 4, there)
    drawn = TrainingImages(Blobs(20), Augmentation(1, True), there).epoch(4, np.random.default_rng(0))
    for images, labels in [*fixed, *drawn]:
        assert (images.device.type, labels.device.type) == ("meta", "meta")
        assert images.shape == (4, 3, 8, 8)
