"""The main job from end to end, interrupted and not, on the engine of this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium_pages import NAMES, require_names, visit, with_script
from commands import command, environment, jcw, start, wait_for
from numpy.typing import NDArray
from programs import needs
from safetensors.numpy import load_file

import jcw_kernels
from jcw_core.datasets.split import normalise
from jcw_core.network.weight_groups import weight_density
from jcw_core.protocols import Dataset
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory

Variant = Callable[..., Path]
ON_HOST = ('name = "recorded"\ntable = "table.npz"', 'name = "host"')


@pytest.fixture(scope="module")
def finished(workspace: Path) -> Path:
    """The folder of a run that nobody disturbed."""
    done = jcw("run", "recipe.toml", "--runs", "undisturbed", cwd=workspace)
    assert done.returncode == 0, done.stderr
    return workspace / "undisturbed" / "recipe"


def result(run: Path, weights: str = "model.safetensors") -> dict[str, Any]:
    """What must not depend on how often a run was interrupted; ``weights`` names the file of each model that is compared."""
    report = json.loads((run / "report.json").read_text())
    return {
        "front": json.loads((run / "front.json").read_text()),
        "models": [(m["id"], m["architecture"], m["test_error"]) for m in report["models"]],
        "weights": {p.parent.name: p.read_bytes() for p in run.glob(f"models/*/{weights}")},
    }


def test_a_run_in_folders_whose_names_are_not_utf8(finished: Path, workspace: Path, tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"run-\xff\x1b[31m")
    for split in ("train", "test"):
        for label in range(3):
            folder = workspace / "images" / split / f"class{label}"
            link = root / "images" / split / os.fsdecode(f"class{label}-".encode() + b"\xe9")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(folder)
    (root / "table.npz").symlink_to(workspace / "table.npz")
    recipe = root / os.fsdecode(b"\xff.toml")
    shutil.copy(workspace / "recipe.toml", recipe)
    done = subprocess.run(command("run", str(recipe)), cwd=root, env=environment(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout + done.stderr
    # What is exported has the names of the classes, which are those of the folders.
    found, wanted = (result(run, "weights.safetensors") for run in (root / "runs" / recipe.stem, finished))
    assert found["weights"]
    assert found == wanted
    shown = subprocess.run(
        command("show", f"runs/{recipe.stem}"), cwd=root, env=environment(), capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr


def test_a_run_that_was_copied_goes_on_under_another_name(finished: Path, workspace: Path) -> None:
    shutil.copytree(finished, workspace / "undisturbed" / "copy")
    given = ("run", "recipe.toml", "--runs", "undisturbed", "--set", "run.name=copy")
    plan = jcw(*given, "--dry-run", cwd=workspace)
    assert plan.returncode == 0, plan.stderr
    stages = [line for line in plan.stdout.splitlines() if not line.startswith("kept whole: ")]
    assert all(line.endswith(("(finished)", "; finished)")) for line in stages)
    assert "population 8 x 4 generations" in plan.stdout
    assert "at most 3 models, 3 epochs each: 1 + 1 + 1" in plan.stdout
    done = jcw(*given, cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("finished before") == len(stages)


def test_a_budget_that_nothing_meets_is_known_when_the_table_is_there(
    finished: Path, workspace: Path
) -> None:
    given = ("run", "recipe.toml", "--runs", "undisturbed", "--set", "retrain.budgets_ms=[1e-6]")
    remembered = (finished / "recipe.json").read_bytes()
    for dry in ([], ["--dry-run"]):
        done = jcw(*given, *dry, cwd=workspace)
        assert done.returncode == 2
        last = done.stderr.splitlines()[-1]
        assert "[retrain] budgets_ms: no network of the space is predicted to run within 1e-06 ms" in last
        assert (finished / "recipe.json").read_bytes() == remembered


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_interrupted_in_every_stage_ends_the_same(
    finished: Path, variant: Variant, kind: signal.Signals
) -> None:
    root = variant()
    for stage, seconds in (
        ("supernet", 0.5),
        ("search", 0.3),
        ("search", 0.9),
        ("retrain", 0.5),
        ("retrain", 1.0),
    ):
        interrupt(root, stage, seconds, kind)
    done = jcw("run", "recipe.toml", cwd=root)
    assert done.returncode == 0, done.stderr
    assert result(root / "runs" / "recipe") == result(finished)


def interrupt(root: Path, stage: str, seconds: float, kind: signal.Signals) -> None:
    """Run, and send a signal ``seconds`` after ``stage`` has begun, or was found finished."""
    log = root / "errors.txt"
    with log.open("w") as stderr:
        process = start("run", "recipe.toml", cwd=root, stderr=stderr)
    wait_for(process, lambda: f"] {stage}" in log.read_text())
    time.sleep(seconds)
    over = process.poll() is not None
    process.send_signal(kind)
    process.communicate(timeout=60)
    errors = log.read_text()
    if not over and "] report done" in errors:
        return  # The signal met a Python that closes, which ends in any way.
    assert "Traceback" not in errors
    ends = {signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: 130}
    assert process.returncode == (0 if over else ends[kind]), errors
    if process.returncode == 130:
        assert errors.endswith("jcw: interrupted; the same command continues from runs/recipe\n")


def test_a_time_cuts_a_recipe_down_and_the_run_keeps_to_it(workspace: Path) -> None:
    given = ("run", "recipe.toml", "--runs", "hurried", "--until", "supernet", "--set", 'run.time="0.01 s"')
    plan = jcw(*given, "--dry-run", cwd=workspace)
    assert plan.returncode == 0, plan.stderr
    assert "with supernet.epochs = 1" in plan.stderr
    assert not (workspace / "hurried").exists()
    notes = []
    for _ in range(2):
        done = jcw(*given, cwd=workspace)
        assert done.returncode == 0, done.stderr
        notes.append(next(line for line in done.stderr.splitlines() if line.startswith("note: trainings")))
    assert notes[0] == notes[1]
    assert "[1/1] supernet finished before" in done.stderr
    kept = json.loads((workspace / "hurried" / "recipe" / "recipe.json").read_text())["set"]
    assert kept == ['run.time="0.01 s"', "supernet.epochs=1"]


def test_a_finished_run_does_nothing_again(finished: Path, workspace: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
    done = jcw("run", "recipe.toml", "--runs", "undisturbed", cwd=workspace)
    assert done.stderr.count("finished before") == 8
    assert before == {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}


def test_the_order_of_the_estimates_is_compared_with_that_of_trained_networks(
    finished: Path, workspace: Path
) -> None:
    arguments = ("search", "fidelity", str(finished), "--networks", "5", "--epochs", "3", "--json")
    done = jcw(*arguments, cwd=workspace)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads((finished / "rank_fidelity.json").read_text())
    assert (found["networks"], found["epochs"], found["objective"]) == (5, 3, "error")
    low, high = found["interval"]
    assert -1 <= low <= high <= 1
    again = jcw("run", "recipe.toml", "--runs", "undisturbed", cwd=workspace)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("finished before") == 7
    assert json.loads((finished / "report.json").read_text())["rank_fidelity"]["points"] == found["points"]


@pytest.fixture(scope="module")
def measured(workspace: Path) -> Path:
    """A run on the device ``host``, in which the first convolution may be pruned."""
    text = (workspace / "recipe.toml").read_text()
    text = text.replace(*ON_HOST).replace("[data]", "prune_first = true\n\n[data]")
    (workspace / "host.toml").write_text(text)
    done = jcw("run", "host.toml", cwd=workspace)
    assert done.returncode == 0, done.stderr
    return workspace / "runs" / "host"


def test_the_report_keeps_its_contract(measured: Path) -> None:
    report = json.loads((measured / "report.json").read_text())
    assert {"name", "cpu", "isa", "threads"} <= report["device"].keys()
    assert {"mape", "kendall_tau", "networks"} <= report["fidelity"].keys()
    assert report["made"]["seconds"].keys() >= {"profile", "search", "retrain", "measure", "evaluate"}
    assert report["layer_times"]["kind"] == "measured"
    assert {"generations", "population", "evaluated", "hypervolume"} <= report["search"].keys()
    # Those cut in one way alone may all be slower than the front, by latencies of this machine.
    assert {"both"} <= set(report["uniform"]) <= {"channels", "weights", "both"}
    assert report["phases"]["models"].keys() == {"baseline", *(model["id"] for model in report["models"])}
    # Latencies of this machine may favour a model of narrow layers that keep all their weights, which ADMM has nothing to do with.
    pruned = {
        m["id"] for m in report["models"] if min(m["architecture"]["densities"].values(), default=1) < 1
    }
    assert report.get("admm", {}).keys() == pruned
    assert (report["network"], report["dataset"]) == ("resnet18", "image_folder")
    # As many as were asked for, unless latencies of this machine leave fewer that are best for theirs.
    front = json.loads((measured / "front.json").read_text())["models"]
    assert len(report["models"]) == min(3, len(front))
    for model in (report["baseline"], *report["models"]):
        assert (measured / model["file"]).stat().st_size == model["file_bytes"]
        assert model["measured_latency_ms"] > 0
        assert model["predicted_latency_ms"] > 0
        assert 0 <= model["test_error"] <= 1
        assert model["macs"] > 0
        assert model["kept_weights"] > 0
    assert report["baseline"]["macs"] > max(m["macs"] for m in report["models"])


def test_the_first_convolution_has_a_density_where_the_recipe_asks_for_it(
    measured: Path, finished: Path
) -> None:
    for run, asked in ((measured, True), (finished, False)):
        models = json.loads((run / "report.json").read_text())["models"]
        assert {"conv1" in model["architecture"]["densities"] for model in models} == {asked}


@needs("chromium")
@pytest.mark.parametrize("width", [400, 1600])
def test_a_browser_shows_all_of_the_report(measured: Path, width: int, tmp_path: Path) -> None:
    page = with_script((measured / "report.html").read_text(encoding="utf-8"), NAMES)
    assert "Error after each stage" in page
    page = page.replace(
        "const found =", "const wide = document.documentElement.scrollWidth - innerWidth, names ="
    )
    page = page.replace("JSON.stringify(found)", "JSON.stringify({names, wide})")
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    shown = visit((tmp_path / "page.html").as_uri(), tmp_path, f"--window-size={width},2000")
    assert shown.console == []
    require_names(shown.found["names"])
    assert shown.found["wide"] <= 0


def test_the_layers_of_a_model_take_what_it_takes(measured: Path, finished: Path) -> None:
    report = json.loads((measured / "report.json").read_text())
    for model in (report["baseline"], *report["models"]):
        layers = report["layer_times"]["models"][model["id"]]
        assert {"conv1", "layer4.1.conv2", "fc"} <= layers.keys()
        # As small as these are, the clock is a part of it.
        assert sum(layers.values()) == pytest.approx(model["measured_latency_ms"], rel=2)
    # A recorded table runs no models.
    assert json.loads((finished / "report.json").read_text())["layer_times"]["kind"] == "predicted"


def test_kept_channels_and_densities_of_a_report_are_those_of_the_exported_tensors(measured: Path) -> None:
    report = json.loads((measured / "report.json").read_text())
    layers = [layer["name"] for layer in report["layers"]]
    for model in (report["baseline"], *report["models"]):
        weights = load_file(measured / "models" / model["id"] / "model.safetensors")
        assert list(model["kept"]) == layers
        for layer, kept in model["kept"].items():
            weight = weights[f"{layer}.weight"]
            assert kept["channels"] == len(weight)
            groups = weight[0].size * -(-len(weight) // 4)
            assert weight_density(weight) <= kept["density"] + 1 / groups


def scored(measured: Path, workspace: Path) -> tuple[Dataset, NDArray[np.float32]]:
    """The images that models are scored on, and as networks read them."""
    registry = Registry()
    context = Context(load_recipe(workspace / "host.toml", registry), registry, RunDirectory(measured))
    test = context.dataset("test")
    return test, normalise(test.images(np.arange(len(test))), test)


def test_test_error_is_that_of_the_file_in_the_engine(measured: Path, workspace: Path) -> None:
    report = json.loads((measured / "report.json").read_text())
    test, images = scored(measured, workspace)
    for model in (report["baseline"], *report["models"]):
        logits = jcw_kernels.load(measured / model["file"]).run(images)
        assert np.mean(logits.argmax(axis=1) != test.labels) == pytest.approx(model["test_error"])


def test_files_of_int8_are_measured_and_evaluated_as_they_run(measured: Path, workspace: Path) -> None:
    copy = workspace / "whole-numbers" / measured.name
    shutil.copytree(measured, copy)
    given = [measured.name + ".toml", "--runs", str(copy.parent), "--set", "export.precision=int8"]
    done = jcw("run", *given, cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert "profile finished before" in done.stderr
    _, images = scored(measured, workspace)
    for model in json.loads((copy / "report.json").read_text())["models"]:
        program, exact = (jcw_kernels.load(run / model["file"]) for run in (copy, measured))
        assert "int8" in [step.kernel for step in program.profile(rounds=1)]
        logits = exact.run(images)
        assert 0 < np.linalg.norm(program.run(images) - logits) < 0.2 * np.linalg.norm(logits)


def test_engine_and_torch_agree_on_the_logits(measured: Path, workspace: Path) -> None:
    import torch

    from jcw_core.formats.safetensors_file import load_model
    from jcw_core.training.module import Slimmable

    images = np.random.default_rng(0).standard_normal((16, 1, 16, 16), dtype=np.float32)
    for folder in sorted((measured / "models").glob("*/")):
        model = load_model(folder / "model.safetensors")
        module = Slimmable(model.network, np.random.default_rng(0))
        module.load_state_dict({k: torch.from_numpy(v) for k, v in model.weights.items()}, strict=False)
        with torch.no_grad():
            expected = module.eval()(torch.from_numpy(images)).numpy()
        np.testing.assert_allclose(jcw_kernels.load(folder / "model.jcw").run(images), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("models = 3", "budgets_ms = [1e-6]")], "budget"),
        ([('backbone = "resnet18"', 'backbone = "mobilenet_v1"')], "table.npz"),
        ([('name = "recorded"', 'name = "toaster"')], "toaster"),
        ([("population = 8", 'population = 8\nalgorithm = "plain"\nselection = "luck"')], "luck"),
        ([('path = "images"', 'path = "pictures"')], "pictures"),
        ([("holdout = 24", "holdout = 100000")], "holdout"),
    ],
)
def test_impossible_recipes_are_refused_in_one_line(
    variant: Variant, changes: list[tuple[str, str]], expected: str
) -> None:
    done = jcw("run", "recipe.toml", cwd=variant(*changes))
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("jcw:")]
    assert len(lines) == 1
    assert expected in lines[0]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("stage", "seconds"), [("profile", 0.5), ("measure", 0.1)])
def test_a_run_that_is_interrupted_while_it_measures_goes_on(
    measured: Path, workspace: Path, tmp_path: Path, stage: str, seconds: float
) -> None:
    shutil.copytree(measured, tmp_path / "host")
    state = tmp_path / "host" / ".state"
    again = ("run", "host.toml", "--runs", str(tmp_path), "--until", stage)
    for _ in range(5):
        (state / f"{stage}.json").unlink()
        process = start(*again, cwd=workspace)
        wait_for(process, (state / stage / "inputs").exists)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        if f"] {stage} done" not in errors:  # else it was done before its interrupt came
            break
    assert process.returncode == 130, errors
    assert errors.endswith(f"\njcw: interrupted; the same command continues from {tmp_path / 'host'}\n")
    assert jcw(*again, cwd=workspace).returncode == 0


def test_a_damaged_model_is_named_and_the_rest_is_kept(measured: Path, workspace: Path) -> None:
    model = measured / "models" / "m1" / "model.jcw"
    whole = model.read_bytes()
    model.write_bytes(whole[: len(whole) // 2])
    try:
        done = jcw("kernels", "profile", str(model), cwd=workspace)
        assert done.returncode == 2
        assert "model.jcw" in done.stderr
        assert "Traceback" not in done.stderr
        again = jcw("run", "host.toml", cwd=workspace)
        assert again.returncode == 0, again.stderr
        assert model.read_bytes() == whole
    finally:
        model.write_bytes(whole)
