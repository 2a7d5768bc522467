"""``jcw search fidelity``: what is compared, that it goes on where it was killed, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from retrain_samples import open_run

from jcw_core.errors import FormatError, JcwError, PluginError
from jcw_core.network.architecture import Architecture
from jcw_core.recipe.recipe import load_recipe
from jcw_core.run.context import Context
from jcw_core.run.origin import remember_recipe
from jcw_core.run.pipeline import run
from jcw_core.supernet.evaluator import SupernetEvaluator
from jcw_core.training.options import TrainingOptions
from jcw_retrain.commands import search
from jcw_retrain.fidelity_section import FidelitySection
from jcw_retrain.kendall import kendall_tau
from jcw_retrain.options import Phases, shortened
from jcw_retrain.rank_fidelity import RANK_FIDELITY, Sampling, rank_fidelity

SAMPLING = Sampling("loss", networks=5, epochs=4, seed=0)


@given(st.tuples(*[st.integers(0, 300)] * 3), st.integers(1, 400))
def test_a_short_schedule_keeps_the_proportions_of_the_phases(
    epochs: tuple[int, int, int], short: int
) -> None:
    phases = Phases(*(TrainingOptions(e, batch_size=2, lr=0.1, lr_warmup_epochs=e / 2) for e in epochs), 0.5)
    found = shortened(phases, short)
    assert found.epochs == min(short, sum(epochs))
    scale = min(1, short / max(1, sum(epochs)))
    for one, before in zip((found.pretrain, found.admm, found.finetune), epochs, strict=True):
        assert abs(one.epochs - before * scale) <= 1
        assert one.lr_warmup_epochs == pytest.approx(before / 2 * scale)
        assert one.lr == 0.1


def test_estimates_of_the_search_are_compared_with_networks_trained_alone(tmp_path: Path) -> None:
    context, plugin = open_run(tmp_path)
    run(context, until="supernet")
    before = len(plugin.events)
    found = rank_fidelity(context, SAMPLING)
    assert found == json.loads(context.path(RANK_FIDELITY).read_text())
    points = found["points"]
    rows = np.array([context.space.row(Architecture.from_dict(p["architecture"])) for p in points])
    assert len(np.unique(rows, axis=0)) == len(rows) == found["networks"] == 5
    estimates = SupernetEvaluator(context, "loss").evaluate(context.space, rows)
    np.testing.assert_array_equal([p["estimate"] for p in points], estimates)
    errors = np.array([p["error"] for p in points])
    held = len(context.dataset("reevaluation"))
    np.testing.assert_allclose(errors * held, np.rint(errors * held))
    assert found["kendall_tau"] == kendall_tau(estimates, errors)
    low, high = found["interval"]
    assert -1 <= low <= found["kendall_tau"] <= high <= 1
    epochs = plugin.events[before:]
    assert [e.done for e in epochs] == list(range(1, 5 * 4 + 1))
    assert {e.total for e in epochs} == {5 * 4}
    assert sorted(p.name for p in (context.directory.root / ".state").iterdir()) == ["supernet.json"]


def test_networks_are_trained_and_pruned_to_their_densities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, _ = open_run(tmp_path)
    run(context, until="supernet")
    scored = []
    monkeypatch.setattr(
        "jcw_retrain.rank_fidelity.score_network",
        lambda module, batches, arithmetic: scored.append(module) or Scored(len(scored)),
    )
    points = rank_fidelity(context, SAMPLING)["points"]
    assert [p["error"] for p in points] == [1, 2, 3, 4, 5]
    for module, point in zip(scored, points, strict=True):
        for layer, density in point["architecture"]["densities"].items():
            kept = (module.get_parameter(f"{layer}.weight") != 0).float().mean()
            assert float(kept) == pytest.approx(density, abs=0.15)


class Scored:
    def __init__(self, error: float) -> None:
        self.error = error


def test_a_killed_comparison_ends_with_the_same_bits(tmp_path: Path) -> None:
    files = []
    for name, kills in (("whole", []), ("broken", [3, 11])):
        folder = tmp_path / name
        context, _ = open_run(folder, threads=2)
        run(context, until="supernet")
        for kill_after in kills:
            assert in_a_process(folder, kill_after) == -signal.SIGKILL
        context, plugin = open_run(folder, threads=2)
        rank_fidelity(context, SAMPLING)
        files.append(context.path(RANK_FIDELITY).read_bytes())
    assert files[0] == files[1]
    assert len(plugin.events) <= 20 - 10


def in_a_process(folder: Path, kill_after: int) -> int:
    here = Path(__file__).parent
    words = [str(folder), "", "2", str(kill_after), "fidelity"]
    command = [sys.executable, str(here / "retrain_samples.py"), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, check=False).returncode


def test_a_supernet_that_is_not_there_or_not_the_recipes_is_refused(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    with pytest.raises(JcwError, match=r"stage 'supernet' has not run.* --until supernet"):
        rank_fidelity(context, SAMPLING)
    run(context, until="supernet")
    text = (tmp_path / "recipe.toml").read_text()
    changed, _ = open_run(tmp_path)
    (tmp_path / "recipe.toml").write_text(text.replace("holdout = 10", "holdout = 12"))
    from jcw_core.recipe.recipe import load_recipe

    changed.recipe = load_recipe(tmp_path / "recipe.toml", changed.registry)
    with pytest.raises(JcwError, match="not with the recipe as it is now"):
        rank_fidelity(changed, SAMPLING)
    with pytest.raises(PluginError, match="unknown objective 'nothing'"):
        rank_fidelity(context, Sampling("nothing", networks=5, epochs=4, seed=0))


def test_the_report_shows_it_while_it_is_about_the_same_supernet(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    run(context, until="supernet")
    section = FidelitySection()
    assert section.data(context) is None
    found = rank_fidelity(context, SAMPLING)
    data = section.data(context)
    assert data is not None
    assert data["points"] == found["points"]
    page = section.html(data)
    assert f"the search's loss is {found['kendall_tau']:.3f} (95% interval" in page
    assert page.count("<title>") >= 5
    file, supernet = context.path(RANK_FIDELITY), context.path("supernet.safetensors")
    for key, value in (("kendall_tau", "much"), ("interval", [0.1]), ("points", [{"estimate": 1}])):
        file.write_text(json.dumps(found | {key: value}))
        with pytest.raises(FormatError, match=rf"{key} is .*run jcw search fidelity again"):
            section.data(context)
    file.write_text(json.dumps(found))
    supernet.write_bytes(supernet.read_bytes() + b" ")
    assert section.data(context) is None


def test_networks_that_nobody_would_train_are_not_compared(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    none = {f"retrain.{phase}.epochs": 0 for phase in ("pretrain", "admm", "finetune")}
    recipe = load_recipe(tmp_path / "recipe.toml", context.registry, none)
    context = Context(recipe, context.registry, context.directory)
    with pytest.raises(JcwError, match=r"the phases of \[retrain\] have no epochs"):
        rank_fidelity(context, SAMPLING)


def test_the_command_says_tau_and_its_interval(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    run(context, until="supernet")
    remember_recipe(context.directory, tmp_path / "recipe.toml")
    arguments = ["fidelity", str(context.directory.root), "--networks", "5", "--epochs", "2"]
    for more, said in (([], "Kendall's tau between their errors and the search's error"), (["--json"], "{")):
        registry = open_run(tmp_path)[0].registry
        done = CliRunner().invoke(search, [*arguments, *more], obj=registry)
        assert done.exit_code == 0, done.output
        assert said in done.stdout
    # Old versions of click mix standard error into what they hand to tests.
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("{"))
    found = json.loads(line)
    assert found.keys() >= {"kendall_tau", "interval", "objective", "networks", "epochs", "points"}
    assert (found["objective"], found["epochs"]) == ("error", 2)
