"""The report's section on ADMM."""

from __future__ import annotations

from pathlib import Path

import pytest
from retrain_samples import open_run

from jcw_core.errors import FormatError
from jcw_core.run.pipeline import run
from jcw_retrain.report_section import AdmmSection
from jcw_retrain.residuals import residuals_of


def test_residuals_of_pruned_models_are_drawn(tmp_path: Path) -> None:
    context, _ = open_run(tmp_path)
    run(context, until="retrain")
    data = AdmmSection().data(context)
    assert data is not None
    assert {name: set(layers) for name, layers in data.items()} == {
        "m2": {"conv2", "conv3"},
        "m3": {"conv2"},
    }
    page = AdmmSection().html(data)
    worst = max(values[-1] for layers in data.values() for values in layers.values())
    assert f"at most it was {worst:.1%}" in page
    assert page.count('class="line') == 2
    context.path(residuals_of("m3")).unlink()
    with pytest.raises(FormatError, match=r"m3/admm\.json"):
        AdmmSection().data(context)


@pytest.mark.parametrize("layers", [{"a": []}, {"a": [], "b": []}])
def test_models_without_epochs_of_admm_have_no_plot(layers: dict[str, list[float]]) -> None:
    assert AdmmSection().html({"m1": layers}) == "<p>There were no epochs of ADMM.</p>"


def test_dense_models_alone_have_no_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, _ = open_run(tmp_path, "budgets_ms = [1.0]")
    run(context, until="retrain")
    assert AdmmSection().data(context) is None
