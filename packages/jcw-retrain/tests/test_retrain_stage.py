"""The stages end to end on a small network: resumed runs, what is written, what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from retrain_samples import MIDDLE, NARROW, SMALL, Stripes, network, open_run

from jcw_core.datasets.split import normalise
from jcw_core.errors import FormatError, JcwError, PluginError
from jcw_core.formats.safetensors_file import load_model
from jcw_core.network.shrink import shrink
from jcw_core.network.weight_groups import weight_density
from jcw_core.run.pipeline import plan, run
from jcw_core.run.records import BASELINE, EXPORTS, MODELS, SUPERNET, ChosenModel, read_exports
from jcw_core.training.batches import TrainingImages
from jcw_core.training.module import Slimmable
from jcw_retrain import jobs as retraining
from jcw_retrain.fitting import Fitted
from jcw_retrain.options import RetrainOptions, phases
from jcw_retrain.residuals import read_residuals, residuals_of

PATIENCE = 20
"""Seconds that a thread waits for another; only a test that fails uses them up."""


def in_a_process(folder: Path, retrain: str, *, threads: int, kill_after: int) -> int:
    here = Path(__file__).parent
    words = [str(folder), retrain, str(threads), str(kill_after)]
    command = [sys.executable, str(here / "retrain_samples.py"), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, check=False).returncode


def outputs(folder: Path) -> dict[str, bytes]:
    root = folder / "run" / "models"
    # A process that was killed may leave a temporary file, whose name begins with a dot.
    return {
        str(p.relative_to(root)): p.read_bytes()
        for p in sorted(root.rglob("*"))
        if p.is_file() and p.name[0] != "."
    }


def test_a_killed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole, broken, averaged = tmp_path / "whole", tmp_path / "broken", "ema = 0.9"
    run(open_run(whole, averaged, threads=2)[0], until="export")
    # Within pretraining of two models at once, then within ADMM and later phases.
    for kill_after in (4, 10):
        assert in_a_process(broken, averaged, threads=2, kill_after=kill_after) == -signal.SIGKILL
    context, plugin = open_run(broken, averaged, threads=2)
    run(context, until="export")
    assert 0 < sum(event.stage == "retrain" for event in plugin.events) <= 28 - 12
    found = outputs(whole)
    assert len(found) == 2 + 4 * 4
    assert found == outputs(broken)


def test_models_are_what_their_architecture_says(tmp_path: Path) -> None:
    context, plugin = open_run(tmp_path)
    run(context, until="export")
    models = {m.id: m for m in ChosenModel.read_all(context.path(MODELS))}
    assert [(m.id, m.requested_latency_ms, m.search_error) for m in models.values()] == [
        (BASELINE, None, None), ("m1", 1.0, 0.5), ("m2", 2.5, 0.3), ("m3", 4.0, 0.1),
    ]  # fmt: skip
    assert [models[f"m{n}"].architecture for n in (1, 2, 3)] == [NARROW, SMALL, MIDDLE]
    exports = read_exports(context.path(EXPORTS))
    for name, chosen in models.items():
        model = load_model(context.path(exports[name]["safetensors"]))
        assert model.network == shrink(network(), chosen.architecture)
        assert model.architecture == chosen.architecture
        assert all(
            np.array_equal(array, load_model(context.path(chosen.weights)).weights[key])
            for key, array in model.weights.items()
        )
        layers = [n.name for n in model.network if n.op in ("conv2d", "linear")]
        assert chosen.kept_weights == sum(np.count_nonzero(model.weights[f"{n}.weight"]) for n in layers)
        for layer in layers:
            wanted = chosen.architecture.densities.get(layer, 1.0)
            assert weight_density(model.weights[f"{layer}.weight"]) == pytest.approx(wanted, abs=1 / 24)
    assert models[BASELINE].kept_weights > max(models[f"m{n}"].kept_weights for n in (1, 2, 3))
    epochs = [e for e in plugin.events if e.stage == "retrain"]
    assert [e.done for e in epochs] == list(range(1, 29))
    assert {e.total for e in epochs} == {28}
    assert sum("admm" in e.detail for e in epochs) == 2 * len(models)


def test_residuals_of_admm_are_kept_for_every_pruned_layer_and_epoch(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    run(context, until="retrain")
    for chosen in ChosenModel.read_all(context.path(MODELS)):
        path = context.path(residuals_of(chosen.id))
        found = read_residuals(path)
        assert found.keys() == {layer for layer, d in chosen.architecture.densities.items() if d < 1}
        assert all(len(values) == 2 and 0 < min(values) <= max(values) < 1 for values in found.values())


@pytest.mark.parametrize("content", ['{"a": 1}', '{"a": [null]}', '{"a": [-1.0]}', '{"a": [NaN]}', "[]"])
def test_damaged_residuals_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "admm.json"
    path.write_text(f'{{"format": "jcw-admm/1", "residuals": {content}}}')
    with pytest.raises(FormatError, match="residuals"):
        read_residuals(path)


def test_models_have_learnt(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    run(context, until="retrain")
    data = Stripes(160)
    images = normalise(data.images(np.arange(160)), data)
    torch = pytest.importorskip("torch")
    for chosen in ChosenModel.read_all(context.path(MODELS)):
        model = load_model(context.path(chosen.weights))
        module = Slimmable(model.network, np.random.default_rng(0)).eval()
        module.load_weights(model.weights)
        with torch.no_grad():
            error = (module(torch.from_numpy(images)).argmax(1).numpy() != data.labels).mean()
        assert error < 0.45, chosen.id  # chance is 0.67


@pytest.mark.parametrize(("retrain", "split"), [("", "training"), ("hold_out = true", "rest")])
def test_models_are_trained_on_all_images_unless_those_of_the_search_are_to_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retrain: str, split: str
) -> None:
    context, _ = open_run(tmp_path, retrain)
    run(context, until="search")
    drawn, epoch = [], TrainingImages.epoch

    def spy(images, *drawn_as):  # type: ignore[no-untyped-def]
        assert images._dataset is context.dataset(split)
        drawn.append(images)
        return epoch(images, *drawn_as)

    monkeypatch.setattr(TrainingImages, "epoch", spy)
    run(context, until="retrain")
    assert drawn
    assert len(context.dataset("training")) == len(context.dataset("train")) + 10


def test_threads_do_not_change_the_weights(tmp_path: Path) -> None:
    for name, threads in (("one", 1), ("three", 3)):
        run(open_run(tmp_path / name, threads=threads)[0], until="retrain")
    assert outputs(tmp_path / "one") == outputs(tmp_path / "three")


def test_a_gpu_trains_one_model_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The processor stands in for a GPU, which has the memory of one training.
    monkeypatch.setattr(retraining, "lanes", lambda arithmetic, threads: 1)
    fit, running, most = retraining.Fitting.run, [0], [0]

    def counted(self: retraining.Fitting) -> Fitted:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.1)
        found = fit(self)
        running[0] -= 1
        return found

    monkeypatch.setattr(retraining.Fitting, "run", counted)
    run(open_run(tmp_path, threads=3)[0], until="retrain")
    assert most == [1]


def test_weights_can_come_from_the_supernet(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path, 'init = "supernet"')
    assert [stage.name for stage in plan(context, "retrain")] == ["search", "supernet", "retrain"]
    run(context, until="retrain")
    assert context.path(SUPERNET).is_file()
    run(open_run(tmp_path / "scratch")[0], until="retrain")
    assert (
        outputs(tmp_path)["m1/weights.safetensors"] != outputs(tmp_path / "scratch")["m1/weights.safetensors"]
    )


def test_a_budget_that_nothing_meets(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path, "budgets_ms = [0.1]")
    with pytest.raises(JcwError, match=r"within 0\.1 ms; the fastest takes 1 ms"):
        run(context, until="retrain")


@pytest.mark.parametrize(
    ("model", "failure"),
    [(BASELINE, JcwError("no luck")), ("m3", JcwError("no luck")), ("m3", KeyboardInterrupt())],
)
def test_the_failure_of_one_model_ends_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, failure: BaseException
) -> None:
    context, plugin = open_run(tmp_path, threads=2)
    run(context, until="search")
    reporter, both = retraining.Work._reporter, threading.Barrier(2)

    def failing(self, job):  # type: ignore[no-untyped-def]
        def report(done: int, detail: str) -> None:
            reporter(self, job)(done, detail)
            if done > 1:
                return
            if job.id in (BASELINE, "m3"):
                both.wait(PATIENCE)
            if job.id == model and isinstance(failure, KeyboardInterrupt):
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]
            elif job.id == model:
                raise failure
            self.stop.wait(PATIENCE)

        return report

    threads = threading.active_count()
    monkeypatch.setattr(retraining.Work, "_reporter", failing)
    with pytest.raises(type(failure), match=f"^{failure}$"):
        run(context, until="retrain")
    epochs = [event.detail.split() for event in plugin.events if event.stage == "retrain"]
    assert {name for name, *_ in epochs} >= {BASELINE, "m3"}
    assert {epoch.split("/")[0] for _, _, epoch, *_ in epochs} == {"1"}
    assert threading.active_count() == threads
    assert not context.path(MODELS).exists()


def test_an_exporter_that_is_missing_is_named_before_any_work(tmp_path: Path) -> None:
    context, plugin = open_run(tmp_path)
    text = (tmp_path / "recipe.toml").read_text().replace('["safetensors"]', '["jcw"]')
    (tmp_path / "recipe.toml").write_text(text)
    from jcw_core.recipe.recipe import load_recipe

    context.recipe = load_recipe(tmp_path / "recipe.toml", context.registry)
    with pytest.raises(PluginError, match="install jcw-kernels"):
        run(context, until="export")
    assert not plugin.events


@pytest.mark.parametrize("name", [b"run-\xff", b"\xc3", b"\xed\xa0\x80 \n\x1b[31m"])
def test_a_run_in_a_folder_whose_name_is_not_utf8(tmp_path: Path, name: bytes) -> None:
    context, _ = open_run(tmp_path / os.fsdecode(name), 'init = "supernet"')
    run(context, until="export")
    assert context.path(MODELS).is_file()


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    run(context, until="retrain")
    path = context.path("models/m1/weights.safetensors")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FormatError, match="not a model"):
        load_model(path)
    with pytest.raises(FormatError, match="no such file"):
        load_model(tmp_path / "none.safetensors")


def test_defaults_are_the_papers_and_recipes_replace_them() -> None:
    table = {name: phases(RetrainOptions(), name) for name in ("resnet18", "mobilenet_v1", "mobilenet_v2")}
    assert [(p.pretrain.epochs, p.pretrain.lr, p.pretrain.weight_decay) for p in table.values()] == [
        (120, 0.256, 1e-4), (120, 0.512, 4e-5), (250, 0.256, 4e-5),
    ]  # fmt: skip
    for found in table.values():
        assert (found.admm.epochs, found.admm.lr, found.admm.annealing, found.rho) == (
            60,
            0.005,
            "constant",
            0.01,
        )
        assert found.admm.weight_decay == found.pretrain.weight_decay
        assert (found.finetune.epochs, found.finetune.annealing, found.finetune.weight_decay) == (
            60,
            "cosine",
            0,
        )
    assert phases(RetrainOptions(), "") == table["resnet18"]
    mine = phases(RetrainOptions(pretrain=type(RetrainOptions().pretrain)(lr=0.5), momentum=0.8), "resnet18")
    assert (mine.pretrain.lr, mine.pretrain.epochs, mine.admm.momentum) == (0.5, 120, 0.8)
