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
    means, *folded = page.split("<details><summary>")
    assert means.count('class="line') == 2
    m2 = "".join(part for part in folded if part.startswith("m2") or "conv3" in part)
    assert m2.count('class="line') == 2
    for values in data["m2"].values():
        assert "".join(f"<td>{value:.1%}</td>" for value in values) in m2
    context.path(residuals_of("m3")).unlink()
    with pytest.raises(FormatError, match=r"m3/admm\.json"):
        AdmmSection().data(context)


@pytest.mark.parametrize("layers", [{"a": []}, {"a": [], "b": []}])
def test_models_without_epochs_of_admm_have_no_plot(layers: dict[str, list[float]]) -> None:
    assert AdmmSection().html({"m1": layers}) == "<p>There were no epochs of ADMM.</p>"


def test_layers_beyond_those_that_end_farthest_share_a_colour() -> None:
    layers = {f"layer{n}": [0.5, n / 100] for n in range(9)}
    page = AdmmSection().html({"m1": layers})
    _, folded = page.split("<summary>m1, layer by layer</summary>")
    chart, numbers = folded.split("<summary>As numbers</summary>")
    assert chart.count('class="line s5"') == 4
    named = [n for n in range(9) if f">layer{n}</text>" in chart]
    assert named == [4, 5, 6, 7, 8]
    assert chart.count(">others</text>") == 1
    assert "layer0: 2, 0.0%</title>" in chart
    assert numbers.count("<tr>") == 10


def test_dense_models_alone_have_no_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, _ = open_run(tmp_path, "budgets_ms = [1.0]")
    run(context, until="retrain")
    assert AdmmSection().data(context) is None
