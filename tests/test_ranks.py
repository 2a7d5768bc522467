"""A run in several processes, as ``torchrun`` starts them: what one process makes, and a line where they cannot go on."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import one_of_several
import pytest
from commands import jcw
from safetensors.numpy import load_file
from several import launch

SETTINGS = {
    "supernet.mode": "per-generation",
    "supernet.warmup_epochs": 1,
    "search.generations": 2,
    # Steps are so small that what sums in another order change stays small; and losses of which one is the smaller, where
    # shares of few images would be the same or not.
    "supernet.lr": 0.001,
    "search.algorithm": "plain",
    "search.objectives": '["latency", "loss"]',
    "retrain.models": 1,
}
CALM = tuple(word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}"))
CALM_MODELS = tuple(
    word for phase in ("pretrain", "admm", "finetune") for word in ("--set", f"retrain.{phase}.lr=0.001")
)


def arguments(runs: str, *more: str) -> list[str]:
    return ["run", "recipe.toml", "--runs", runs, *CALM, *more]


def front(run: Path) -> tuple[list[Any], list[float]]:
    """The architectures of a front, and their objectives."""
    models = json.loads((run / "front.json").read_text())["models"]
    objectives = [value for model in models for value in model["objectives"].values()]
    return [model["architecture"] for model in models], objectives


def assert_same_front(one: Path, two: Path) -> None:
    (expected, values), (found, others) = front(one), front(two)
    assert found == expected
    assert others == pytest.approx(values, rel=1e-3)


def said(stderr: str) -> list[str]:
    """Lines of ``jcw``'s own that tell of an error."""
    return [line for line in stderr.splitlines() if "jcw: " in line]


def assert_alike(one: Path, two: Path, largest: float) -> None:
    expected, found = load_file(one), load_file(two)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=largest, atol=largest, err_msg=name)


@pytest.fixture(scope="module")
def one(workspace: Path) -> Path:
    """The folder of a run in one process."""
    done = jcw(*arguments("one"), cwd=workspace)
    assert done.returncode == 0, done.stderr
    return workspace / "one" / "recipe"


@pytest.fixture(scope="module")
def two(workspace: Path) -> Path:
    """The folder of the same run in two."""
    done = launch("-m", "jcw_core", *arguments("two"), cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert done.stdout.startswith("report: ")
    lines = [line for line in done.stderr.splitlines() if line.startswith("[")]
    assert len(lines) == len(set(lines)) == 16
    return workspace / "two" / "recipe"


def test_two_processes_make_what_one_makes(one: Path, two: Path) -> None:
    assert_same_front(one, two)
    assert_alike(one / "supernet.safetensors", two / "supernet.safetensors", 1e-4)
    index = [json.loads((run / "models" / "index.json").read_text()) for run in (one, two)]
    assert index[0] == index[1]
    # Each model was trained by one process as a whole.
    for weights in one.glob("models/*/weights.safetensors"):
        assert weights.read_bytes() == (two / weights.relative_to(one)).read_bytes()


def test_one_process_finds_the_run_of_two_finished(two: Path, workspace: Path) -> None:
    done = jcw(*arguments("two"), cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("finished before") == 8


def test_more_processes_than_models_train_each_together(two: Path, workspace: Path) -> None:
    for name in ("alone", "together"):
        shutil.copytree(two, workspace / name / "recipe")
    alone = jcw(*arguments("alone", *CALM_MODELS), "--until", "retrain", cwd=workspace)
    together = launch(
        "-m",
        "jcw_core",
        *arguments("together", *CALM_MODELS),
        "--until",
        "retrain",
        cwd=workspace,
        processes=3,
    )
    assert (alone.returncode, together.returncode) == (0, 0), together.stderr
    for model in ("baseline", "m1"):
        one, three = (workspace / name / "recipe/models" / model for name in ("alone", "together"))
        assert_alike(one / "weights.safetensors", three / "weights.safetensors", 0.02)


def test_a_baseline_teaches_models_of_other_processes(two: Path, workspace: Path) -> None:
    taught = (
        *CALM_MODELS,
        "--set",
        'retrain.teacher="baseline"',
        "--set",
        "retrain.models=2",
        "--until",
        "retrain",
    )
    for name in ("taught", "taught-by-two"):
        shutil.copytree(two, workspace / name / "recipe")
    alone = jcw(*arguments("taught", *taught), cwd=workspace)
    both = launch("-m", "jcw_core", *arguments("taught-by-two", *taught), cwd=workspace)
    assert (alone.returncode, both.returncode) == (0, 0), alone.stderr + both.stderr
    models = workspace / "taught" / "recipe" / "models"
    found = sorted(models.glob("*/weights.safetensors"))
    assert [path.parent.name for path in found] == ["baseline", "m1", "m2"]
    for weights in found:
        other = workspace / "taught-by-two" / "recipe" / "models" / weights.relative_to(models)
        assert weights.read_bytes() == other.read_bytes()


def test_a_killed_process_ends_the_others_with_a_line(one: Path, workspace: Path) -> None:
    run = workspace / "killed" / "recipe"
    checkpoint = run / ".state" / "search" / "state.npz"
    done = launch(
        one_of_several.__file__, "killed-when", str(checkpoint), *arguments("killed"), cwd=workspace
    )
    assert done.returncode != 0
    (line,) = said(done.stderr)
    assert re.search(r"another process of (this|its) run has ended; what is finished stays", line)
    assert checkpoint.exists()
    went_on = jcw(*arguments("killed"), cwd=workspace)
    assert went_on.returncode == 0, went_on.stderr
    assert_same_front(one, run)


def test_processes_that_see_other_images_are_told_in_a_line(workspace: Path, tmp_path: Path) -> None:
    for name in ("recipe.toml", "table.npz"):
        (tmp_path / name).symlink_to(workspace / name)
    shutil.copytree(workspace / "images", tmp_path / "images")
    (tmp_path / "images" / "train" / "class0" / "0.png").unlink()
    done = launch(one_of_several.__file__, "works-in", str(tmp_path), *arguments("other"), cwd=workspace)
    assert done.returncode != 0
    (line,) = said(done.stderr)
    assert "see other training images: 180 of 3 classes" in line
    assert "179 of 3 classes" in line
    assert not (workspace / "other").exists()


def test_a_recipe_that_cannot_be_run_is_told_once(workspace: Path) -> None:
    done = launch("-m", "jcw_core", *arguments("bad", "--set", "run.sead=1"), cwd=workspace)
    assert done.returncode != 0
    (line,) = said(done.stderr)
    assert "sead" in line
