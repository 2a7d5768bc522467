"""Where a run trains, and what is said where it cannot. No test here needs a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from supernet_samples import Blobs

import jcw_core.plugin
from jcw_core.errors import JcwError, RecipeError
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import plan
from jcw_core.training.accelerator import arithmetic_of, within_memory
from jcw_core.training.batches import FixedImages, TrainingImages
from jcw_core.training.options import Arithmetic, Augmentation

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


@pytest.mark.parametrize(("size", "processes", "half"), [(256, 1, 128), (257, 4, 128), (2, 1, 2)])
def test_a_batch_that_is_too_large_is_told_with_one_that_fits(size: int, processes: int, half: int) -> None:
    with pytest.raises(JcwError) as error, within_memory(size, processes):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
    assert f"batch of {size} does not fit" in str(error.value)
    assert f"give batch_size = {half}," in str(error.value)
    assert "\n" not in str(error.value)


def test_batches_are_made_where_networks_compute() -> None:
    there = Arithmetic(channels_last=True, device="meta")
    fixed = FixedImages(Blobs(20), np.arange(8), 4, there)
    drawn = TrainingImages(Blobs(20), Augmentation(1, True), there).epoch(4, np.random.default_rng(0))
    for images, labels in [*fixed, *drawn]:
        assert (images.device.type, labels.device.type) == ("meta", "meta")
        assert images.shape == (4, 3, 8, 8)
