"""The error after each phase of training is kept, and a report shows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from retrain_samples import Stripes, open_run
from test_fitting import ADMM, FINETUNE, PRETRAIN, fitting_of

from jcw_core.errors import FormatError
from jcw_core.run.pipeline import run
from jcw_core.run.records import EVALUATION, Evaluation, ModelScore
from jcw_core.supernet.evaluation import score_network
from jcw_core.training.batches import FixedImages
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic
from jcw_retrain import jobs
from jcw_retrain.fitting import Fitted
from jcw_retrain.jobs import probe_of
from jcw_retrain.options import Phases
from jcw_retrain.phase_errors import PhaseErrors, PhasesSection, phase_errors_of

PHASES = ("pretrain", "admm", "pruned", "finetune")
PROBE = FixedImages(Stripes(160), np.arange(100, 160), 32, Arithmetic())


def fitted(folder: Path, phases: Phases, *, is_probed: bool = True) -> Fitted:
    return fitting_of(folder, phases, probe=PROBE if is_probed else ()).run()


def test_the_last_error_is_that_of_the_model_and_scoring_changes_no_bit(tmp_path: Path) -> None:
    phases = Phases(PRETRAIN, ADMM, FINETUNE, 0.5)
    found = fitted(tmp_path / "probed", phases)
    assert tuple(found.errors) == PHASES
    module = Slimmable(found.model.network, np.random.default_rng(0))
    module.load_weights(found.model.weights)
    assert found.errors["finetune"] == score_network(module, PROBE, Arithmetic()).error
    blind = fitted(tmp_path / "blind", phases, is_probed=False)
    assert blind.errors == {}
    for name, array in blind.model.weights.items():
        np.testing.assert_array_equal(array, found.model.weights[name])


def test_a_run_keeps_them_and_the_report_has_a_row_for_each_model(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    run(context, until="retrain")
    data = PhasesSection().data(context)
    assert data is not None
    assert (data["images"], data["are_trained_on"]) == (5, True)
    assert list(data["models"]) == ["baseline", "m1", "m2", "m3"]
    assert tuple(data["models"]["m2"]) == ("search", *PHASES)
    assert tuple(data["models"]["baseline"]) == PHASES
    Evaluation(dict.fromkeys(data["models"], ModelScore(0.123, 50))).write(context.path(EVALUATION))
    data = PhasesSection().data(context)
    assert data is not None
    page = PhasesSection().html(data)
    assert page.count("<tr>") == 5
    assert page.count("<td>12.30%</td>") == 4
    assert '<th scope="row">baseline</th><td>-</td>' in page
    assert "starting weights" not in page
    assert "trained on, too" in page
    context.path(phase_errors_of("m2")).write_text('{"format": "jcw-phases/1", "errors": {"admm": -1}}')
    with pytest.raises(FormatError, match=r"m2/phases\.json.*admm"):
        PhasesSection().data(context)


def test_inherited_weights_are_scored_and_held_out_images_are_said_to_be(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path, 'init = "supernet"\nhold_out = true')
    run(context, until="retrain")
    data = PhasesSection().data(context)
    assert data is not None
    assert tuple(data["models"]["m1"]) == ("search", "begun", *PHASES)
    page = PhasesSection().html(data)
    assert "starting weights" in page
    assert "which no training has seen" in page


def test_images_without_labels_have_no_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, _ = open_run(tmp_path)
    assert len(probe_of(context, Arithmetic())) == 1
    monkeypatch.setattr(Stripes, "labels", np.full(160, -1))
    assert len(probe_of(context, Arithmetic())) == 0
    monkeypatch.undo()
    monkeypatch.setattr(jobs, "probe_of", lambda *_: ())
    run(context, until="retrain")
    assert PhasesSection().data(context) is None


@pytest.mark.parametrize(
    "content",
    [
        '"errors": {"other": 0.1}, "images": 3, "are_trained_on": true',
        '"errors": {"admm": null}, "images": 3, "are_trained_on": true',
        '"errors": {}, "images": "3", "are_trained_on": true',
        '"errors": {}, "images": 3',
        '"errors": []',
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "phases.json"
    path.write_text(f'{{"format": "jcw-phases/1", {content}}}')
    with pytest.raises(FormatError, match=r"phases\.json"):
        PhaseErrors.read(path)
