"""The stage and its objectives. A run in a process of its own can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from supernet_samples import Blobs, residual

from jcw_core.hookspecs import hookimpl
from jcw_core.network.architecture import Architecture
from jcw_core.protocols import Run
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import run
from jcw_core.run.records import SUPERNET
from jcw_core.supernet.evaluation import Score
from jcw_core.supernet.evaluator import SupernetEvaluator
from jcw_core.supernet.objective import ERROR
from jcw_core.supernet.options import DRAWN, SupernetOptions
from jcw_core.supernet.stages import SupernetStage
from jcw_core.training.batches import FixedImages
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic


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

AVERAGED_SANDWICH = """draws = "sandwich"
ema = 0.9
nesterov = false
channel_epochs = 1
"""


@dataclass(frozen=True)
class SearchOptions:
    population: int = 4
    variant: str = "joint"


class SearchStage:
    """Owns the table ``[search]``."""

    name = "search"
    section = "search"
    options = SearchOptions
    reads = ()
    makes = ("front.json",)

    def needs(self, run: Run) -> tuple[str, ...]:
        return ()

    def run(self, run: Run) -> tuple[str, ...]:
        raise AssertionError("nothing here searches")

    @hookimpl
    def jcw_register_stages(self) -> list[SearchStage]:
        return [self]


def open_run(
    folder: Path, mode: str = "continuous", more: str = "", *, kill_after: int = 0, searches: bool = False
) -> tuple[Context, Plugin]:
    (folder / "network.json").write_text(residual().to_json())
    (folder / "recipe.toml").write_text(RECIPE.replace("MODE", mode) + more)
    plugin = Plugin(kill_after)
    plugins: dict[str, object] = {"test": plugin} | ({"search": SearchStage()} if searches else {})
    registry = Registry(plugins, installed=False)
    return Context(
        load_recipe(folder / "recipe.toml", registry), registry, RunDirectory(folder / "run")
    ), plugin


def generation(context: Context, number: int) -> np.ndarray:
    """Six parents and children, as a search would give them."""
    return context.space.sample(6, np.random.default_rng(number))


def search(folder: Path, mode: str, more: str, kill_after: int) -> None:
    """A supernet and two generations; the evaluated errors go to a file."""
    context, _ = open_run(folder, mode, more, kill_after=kill_after)
    run(context, until="supernet")
    evaluator = SupernetEvaluator(context, "loss")
    values = []
    for number in range(2):
        evaluator.begin_generation(generation(context, number), number)
        values.append(evaluator.evaluate(context.space, generation(context, number)))
    np.save(folder / "values.npy", np.array(values))


def in_a_process(folder: Path, mode: str, more: str, kill_after: int) -> int:
    arguments = f"pathlib.Path({str(folder)!r}), {mode!r}, {more!r}, {kill_after}"
    code = f"import test_supernet_stage as t, pathlib; t.search({arguments})"
    here = Path(__file__).parent
    # What is there stays, so that the process runs the same sources as this one.
    folders = [str(here), str(here.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode


@pytest.mark.parametrize(
    ("mode", "more", "kills"), [("continuous", "", [2]), ("per-generation", AVERAGED_SANDWICH, [1, 2])]
)
def test_a_killed_run_ends_with_the_same_bits(tmp_path: Path, mode: str, more: str, kills: list[int]) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    search(whole, mode, more, 0)
    for kill_after in kills:
        assert in_a_process(broken, mode, more, kill_after) == -signal.SIGKILL
    search(broken, mode, more, 0)
    assert (whole / "run" / SUPERNET).read_bytes() == (broken / "run" / SUPERNET).read_bytes()
    values = [np.load(folder / "values.npy", allow_pickle=False) for folder in (whole, broken)]
    assert np.array_equal(*values)
    assert np.ptp(values[0]) > 0


def trained_on(monkeypatch: pytest.MonkeyPatch) -> list[Architecture]:
    """Takes down every architecture that is run forward."""
    trained, forward = list[Architecture](), Slimmable.forward

    def spy(module, images, architecture=None):  # type: ignore[no-untyped-def]
        trained.append(architecture)
        return forward(module, images, architecture)

    monkeypatch.setattr(Slimmable, "forward", spy)
    return trained


@pytest.mark.parametrize("variant", ["joint", "channels", "weights", "sequential"])
@pytest.mark.parametrize("mode", ["continuous", "per-generation"])
def test_the_supernet_is_trained_on_networks_that_the_variant_of_the_search_visits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variant: str, mode: str
) -> None:
    context, _ = open_run(tmp_path, mode, f'[search]\nvariant = "{variant}"\n', searches=True)
    trained = trained_on(monkeypatch)
    run(context, until="supernet")
    rows = np.array([context.space.row(architecture) for architecture in trained])
    widths = np.array([v.kind == "width" for v in context.space.variables])
    wide, dense = ((rows[:, kind] == context.space.maximum[kind]).all(1).mean() for kind in (widths, ~widths))
    assert (wide == 1) == (variant == "weights")
    assert (dense == 1) == (variant == "channels")
    assert (0.45 < dense < 0.95) == (variant == "sequential")


def test_another_variant_trains_the_supernet_anew_and_another_population_does_not(tmp_path: Path) -> None:
    trained = []
    for variant, population in (("joint", 4), ("joint", 8), ("weights", 8), ("weights", 4), ("joint", 4)):
        more = f'[search]\nvariant = "{variant}"\npopulation = {population}\n'
        context, plugin = open_run(tmp_path, more=more, searches=True)
        run(context, until="supernet")
        trained.append(len(plugin.events) > 0)
    assert trained == [True, False, True, False, True]


def test_a_search_without_variants_trains_on_the_whole_space(tmp_path: Path) -> None:
    files = []
    for name, searches in (("alone", False), ("joint", True)):
        (tmp_path / name).mkdir()
        context, _ = open_run(tmp_path / name, searches=searches)
        run(context, until="supernet")
        files.append(context.path(SUPERNET).read_bytes())
    assert files[0] == files[1]


def test_generations_are_trained_on_their_population(tmp_path: Path) -> None:
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


def test_each_step_of_a_generation_trains_one_of_its_population(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, _ = open_run(tmp_path, "per-generation")
    run(context, until="supernet")
    trained = trained_on(monkeypatch)
    population = generation(context, 5)
    SupernetEvaluator(context, "error").begin_generation(population, 0)
    assert set(trained) <= {context.space.architecture(row) for row in population}
    assert len(set(trained)) > len(population) / 2, "children as well as parents"


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


@pytest.mark.parametrize(("method", "split"), [("evaluate", "validation"), ("reevaluate", "reevaluation")])
def test_estimates_are_of_images_held_out_and_calibrated_on_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, split: str
) -> None:
    context, _ = open_run(tmp_path)
    run(context, until="supernet")
    used = []

    def score(module, architecture, calibration, batches, arithmetic):  # type: ignore[no-untyped-def]
        used.append((images_of(calibration), images_of(batches)))
        return Score(0.0, 0.0)

    def images(name: str) -> list[bytes]:
        dataset = context.dataset(name)
        return images_of(FixedImages(dataset, np.arange(len(dataset)), 64, Arithmetic()))

    monkeypatch.setattr("jcw_core.supernet.evaluator.score_subnetwork", score)
    getattr(SupernetEvaluator(context, "error"), method)(context.space, generation(context, 0))
    assert len(used) == 6
    for calibration, scored in used:
        assert len(set(calibration)) == len(calibration) == 60
        assert set(calibration) <= set(images("train"))
        assert scored == images(split)
    parts = [set(images(name)) for name in ("train", "validation", "reevaluation")]
    assert set.union(*parts) == set(images("training"))
    assert sum(map(len, parts)) == len(set.union(*parts))


def test_the_search_sees_some_classes_and_retraining_all(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    split = replace(context.recipe.split, search_classes=3, search_per_class=20, holdout=12)
    context = Context(replace(context.recipe, split=split), context.registry, context.directory)
    seen = [context.dataset(name) for name in ("train", "validation", "reevaluation")]
    assert [len(one) for one in seen] == [48, 6, 6]
    classes = [np.unique(one.labels).tolist() for one in seen]
    assert classes[0] == classes[1] == classes[2]
    assert len(classes[0]) == 3
    training, rest = context.dataset("training"), context.dataset("rest")
    assert len(rest) == len(training) - 12
    assert np.unique(training.labels).tolist() == np.unique(rest.labels).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("metric", ["error", "loss"])
def test_a_front_is_evaluated_again_the_same_by_a_run_that_was_resumed(
    tmp_path: Path, metric: Literal["error", "loss"]
) -> None:
    """Whatever the evaluator has trained on before the front, as a generation of its own."""
    context, _ = open_run(tmp_path, "per-generation")
    run(context, until="supernet")
    front, values = generation(context, 5), []
    for others in ([], [6], [6, 7]):
        evaluator = SupernetEvaluator(context, metric)
        for number in others:
            evaluator.begin_generation(generation(context, number), number)
        evaluator.begin_generation(front, 8)
        values.append(evaluator.reevaluate(context.space, front))
        assert not np.array_equal(values[-1], evaluator.evaluate(context.space, front))
    assert np.array_equal(values[0], values[1])
    assert np.array_equal(values[0], values[2])


@pytest.mark.parametrize(("asked", "taken"), [(60, 60), (1280, 160)])
def test_no_more_images_are_expected_to_calibrate_than_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int, taken: int
) -> None:
    monkeypatch.setattr("jcw_core.training.pace.seconds_per_image", lambda *_: 3 / DRAWN)
    context, _ = open_run(tmp_path)
    object.__setattr__(context.options(SupernetOptions), "calibration_images", asked)
    assert len(context.dataset("train")) == 160
    held_out = len(context.dataset("validation"))
    assert ERROR.seconds(context) == pytest.approx(held_out + taken)
    object.__setattr__(context.options(SupernetOptions), "mode", "post-training")
    assert SupernetStage().plan(context).endswith(f"statistics of {taken} images")


def images_of(batches: FixedImages) -> list[bytes]:
    return [image.numpy().tobytes() for images, _ in batches for image in images]


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
