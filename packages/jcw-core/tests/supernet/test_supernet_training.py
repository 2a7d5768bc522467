"""Training: resumed runs, the stage and its objectives. A run in a process of its own can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from supernet_samples import Blobs, residual

from jcw_core.architecture import Architecture
from jcw_core.context import Context
from jcw_core.errors import DataError, FormatError, JcwError
from jcw_core.hookspecs import hookimpl
from jcw_core.pipeline import run
from jcw_core.recipe import load_recipe
from jcw_core.records import SUPERNET
from jcw_core.registry import Registry
from jcw_core.run_directory import RunDirectory
from jcw_core.supernet import checkpoint
from jcw_core.supernet.arithmetic import computing, has_bf16
from jcw_core.supernet.batches import FixedImages, TrainingImages, augment
from jcw_core.supernet.evaluation import score_network, score_subnetwork
from jcw_core.supernet.evaluator import SupernetEvaluator
from jcw_core.supernet.module import Slimmable
from jcw_core.supernet.options import Arithmetic, Augmentation, TrainingOptions
from jcw_core.supernet.stage import SupernetStage
from jcw_core.supernet.training import Training, learning_rate


class BlobData:
    name = "blobs"

    @dataclass(frozen=True)
    class Options:
        count: int = 200

    options = Options

    def open(self, split: str, options: Options) -> Blobs:
        return Blobs(options.count)


class Plugin:
    def __init__(self, kill_after: int = 0) -> None:
        self.kill_after = kill_after
        self.events: list[str] = []

    @hookimpl
    def jcw_register_datasets(self) -> list[BlobData]:
        return [BlobData()]

    @hookimpl
    def jcw_register_stages(self) -> list[SupernetStage]:
        return [SupernetStage()]

    @hookimpl
    def jcw_progress(self, event) -> None:  # type: ignore[no-untyped-def]
        self.events.append(event.detail)
        if len(self.events) == self.kill_after:
            os.kill(os.getpid(), signal.SIGKILL)


RECIPE = """
[run]
threads = 1
[network]
file = "network.json"
[data]
name = "blobs"
holdout = 40
[supernet]
mode = "MODE"
epochs = 4
warmup_epochs = 2
batch_size = 16
calibration_images = 60
crop_padding = 1
flip = true
"""


def open_run(folder: Path, mode: str = "continuous", *, kill_after: int = 0) -> tuple[Context, Plugin]:
    (folder / "network.json").write_text(residual().to_json())
    (folder / "recipe.toml").write_text(RECIPE.replace("MODE", mode))
    plugin = Plugin(kill_after)
    registry = Registry({"test": plugin}, installed=False)
    return Context(
        load_recipe(folder / "recipe.toml", registry), registry, RunDirectory(folder / "run")
    ), plugin


def generation(context: Context, number: int) -> np.ndarray:
    """Values of six parents, as a search would give them."""
    return context.space.sample(6, np.random.default_rng(number))


def search(folder: Path, mode: str, kill_after: int) -> None:
    """A supernet and two generations; the evaluated errors go to a file."""
    context, _ = open_run(folder, mode, kill_after=kill_after)
    run(context, until="supernet")
    evaluator = SupernetEvaluator(context, "loss")
    values = []
    for number in range(2):
        evaluator.begin_generation(generation(context, number), number)
        values.append(evaluator.evaluate(context.space, generation(context, number)))
    np.save(folder / "values.npy", np.array(values))


def in_a_process(folder: Path, mode: str, kill_after: int) -> int:
    code = f"import test_supernet_training as t, pathlib; t.search(pathlib.Path({str(folder)!r}), {mode!r}, {kill_after})"
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{here.parent}", "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode


@pytest.mark.parametrize(("mode", "kills"), [("continuous", [2]), ("per-generation", [1, 2])])
def test_a_killed_run_ends_with_the_same_bits(tmp_path: Path, mode: str, kills: list[int]) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    search(whole, mode, 0)
    for kill_after in kills:
        assert in_a_process(broken, mode, kill_after) == -signal.SIGKILL
    search(broken, mode, 0)
    assert (whole / "run" / SUPERNET).read_bytes() == (broken / "run" / SUPERNET).read_bytes()
    values = [np.load(folder / "values.npy", allow_pickle=False) for folder in (whole, broken)]
    assert np.array_equal(*values)
    assert np.ptp(values[0]) > 0


def test_generations_are_trained_on_their_parents(tmp_path: Path) -> None:
    context, plugin = open_run(tmp_path, "per-generation")
    run(context, until="supernet")
    assert len(plugin.events) == 2
    evaluator = SupernetEvaluator(context, "error")
    population = generation(context, 5)
    assert evaluator.begin_generation(population, 0)
    first = evaluator.evaluate(context.space, population)
    assert len(plugin.events) == 4
    assert evaluator.begin_generation(generation(context, 6), 1)
    assert evaluator.begin_generation(population, 0)
    assert np.array_equal(first, evaluator.evaluate(context.space, population))


def test_the_supernet_learns_and_evaluation_changes_nothing(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    run(context, until="supernet")
    evaluator = SupernetEvaluator(context, "error")
    assert not evaluator.begin_generation(generation(context, 0), 0)
    population = np.stack([context.space.maximum, *context.space.sample(5, np.random.default_rng(0))])
    errors = evaluator.evaluate(context.space, population)
    assert errors[0] < 0.4  # 0.8 is chance
    assert ((errors >= 0) & (errors <= 1)).all()
    assert np.array_equal(errors, evaluator.evaluate(context.space, population))
    backwards = evaluator.evaluate(context.space, population[::-1])
    assert np.array_equal(errors, backwards[::-1])


def test_threads_do_not_change_what_is_estimated(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    run(context, until="supernet")
    population = context.space.sample(6, np.random.default_rng(0))
    alone = SupernetEvaluator(context, "loss").evaluate(context.space, population)
    (tmp_path / "recipe.toml").write_text(
        (tmp_path / "recipe.toml").read_text().replace("threads = 1", "threads = 3")
    )
    together = Context(
        load_recipe(tmp_path / "recipe.toml", context.registry), context.registry, context.directory
    )
    assert np.array_equal(alone, SupernetEvaluator(together, "loss").evaluate(together.space, population))


def test_bf16_is_close_to_fp32(dataset: Blobs) -> None:
    module = Slimmable(residual(), np.random.default_rng(0))
    small, scores = Architecture({"conv1": 8, "block.conv1": 4}, {"block.conv1": 0.5}), []
    for arithmetic in (Arithmetic(), Arithmetic("bf16", channels_last=True)):
        images = FixedImages(dataset, np.arange(64), 16, arithmetic)
        scores.append(score_subnetwork(module, small, images, images, arithmetic).loss)
    assert scores[0] != scores[1]
    assert scores[0] == pytest.approx(scores[1], rel=0.02)


def test_bf16_is_chosen_by_what_the_processor_has(tmp_path: Path) -> None:
    for name, flags in (("new", "fma avx512f avx512_bf16"), ("old", "fma avx512f")):
        (tmp_path / name).write_text(f"processor : 0\nflags\t\t: {flags}\n")
    assert has_bf16(tmp_path / "new")
    assert not has_bf16(tmp_path / "old")
    assert not has_bf16(tmp_path / "none")
    wanted = torch.bfloat16 if has_bf16() else torch.float32
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("auto", wanted)):
        with computing(Arithmetic(precision)):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_a_trained_network_keeps_its_running_statistics(dataset: Blobs, tmp_path: Path) -> None:
    module = Slimmable(residual(), np.random.default_rng(0))
    images = TrainingImages(dataset, Augmentation(), Arithmetic())
    options = TrainingOptions(epochs=4, batch_size=20, lr=0.1)
    Training(module, images, options, Arithmetic(), np.random.default_rng, tmp_path / "c").run()
    fixed = FixedImages(dataset, np.arange(200), 64, Arithmetic())
    assert score_network(module, fixed, Arithmetic()).error < 0.1
    assert not module.training


def test_divergence_names_the_learning_rate(dataset: Blobs, tmp_path: Path) -> None:
    module = Slimmable(residual(), np.random.default_rng(0))
    images = TrainingImages(dataset, Augmentation(), Arithmetic())
    options = TrainingOptions(epochs=3, batch_size=20, lr=1e30)
    with pytest.raises(JcwError, match="lower lr"):
        Training(module, images, options, Arithmetic(), np.random.default_rng, tmp_path / "c").run()


def test_too_few_images(dataset: Blobs) -> None:
    with pytest.raises(DataError, match="batch of 300"):
        TrainingImages(dataset, Augmentation(), Arithmetic()).steps(300)


def test_learning_rates() -> None:
    options = TrainingOptions(epochs=10, batch_size=1, lr=2.0, lr_warmup_epochs=2)
    assert [round(learning_rate(options, e), 6) for e in (0, 1, 2, 6, 10)] == [0, 1, 2, 1, 0]
    assert learning_rate(TrainingOptions(epochs=3, batch_size=1, lr=0.5, annealing="constant"), 2.9) == 0.5


def test_augmentation_moves_and_mirrors_whole_images() -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(1, 255, (50, 2, 6, 5), dtype=np.uint8)
    changed = augment(pixels, Augmentation(crop_padding=1, flip=True), rng)
    padded = np.pad(pixels, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = set()
    for before, after in zip(padded, changed, strict=True):
        options = {
            (flip, y, x): before[:, y : y + 6, x : x + 5][:, :, :: -1 if flip else 1]
            for flip in (0, 1) for y in range(3) for x in range(3)
        }  # fmt: skip
        matches = [key for key, image in options.items() if np.array_equal(image, after)]
        assert len(matches) == 1
        seen.update(matches)
    assert len(seen) > 12
    assert augment(pixels, Augmentation(), rng) is pixels


def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    checkpoint.save(path, {"a": torch.ones(3)}, {"epochs": 2})
    tensors, note = checkpoint.load(path)
    assert torch.equal(tensors["a"], torch.ones(3))
    assert note == {"epochs": 2}
    with pytest.raises(FormatError, match="'a' does not match"):
        checkpoint.load_into({"b": torch.ones(3)}, tensors, path)
    with pytest.raises(FormatError, match=r"a is \(3,\), expected \(2,\)"):
        checkpoint.load_into({"a": torch.ones(2)}, tensors, path)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(FormatError, match="not a checkpoint"):
        checkpoint.load(path)
    with pytest.raises(FormatError, match="no such file"):
        checkpoint.load(tmp_path / "none")
