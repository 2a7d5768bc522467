"""Results of a search in notebooks and as data frames."""

from __future__ import annotations

import numpy as np
import pytest

from jcw_core.space.space import SearchSpace
from jcw_search import Fixed, SearchResult, search


@pytest.fixture
def result(space: SearchSpace, evaluators: dict[str, Fixed]) -> SearchResult:
    latency, error = evaluators.values()
    return search(
        space, {"<latency>": latency, "error": error}, algorithm="plain", population=8, generations=2
    )


def test_a_result_in_a_notebook(result: SearchResult) -> None:
    html = result._repr_html_()
    assert "<th>&lt;latency&gt;</th>" in html
    assert "<latency>" not in html
    assert html.count("<tr>") == 1 + min(30, len(result.front))
    assert f"<td>{result.front[0]}</td><td>{result.reported[0, 0]:.6g}</td>" in html


def test_a_data_frame_has_a_row_for_each_architecture(result: SearchResult) -> None:
    pytest.importorskip("pandas")
    frame = result.to_dataframe()
    variables = [f"{v.kind} {v.name}" for v in result.space.variables]
    assert list(frame.columns) == ["<latency>", "error", "on_front", "population", *variables]
    np.testing.assert_array_equal(frame[["<latency>", "error"]], result.objectives)
    np.testing.assert_array_equal(frame[variables], result.values)
    assert set(np.flatnonzero(frame["on_front"])) == set(result.front)
    assert set(np.flatnonzero(frame["population"])) == set(result.population)
