"""Tables in notebooks and as data frames."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jcw_core.network.graph import Network
from jcw_latency import LatencyPredictor, LatencyTable, table_from_arrays
from jcw_latency.table.axes import AXES


def test_a_table_in_a_notebook(table: LatencyTable) -> None:
    table = replace(table, device=replace(table.device, cpu="<b>cpu"))
    html = table._repr_html_()
    assert "&lt;b&gt;cpu" in html
    assert "<b>" not in html
    assert html.count("<tr>") == 1 + min(30, len(table.grids))
    grid = table.grids[0]
    assert f"<td>{grid.ms.size}</td><td>{grid.ms.flat[-1]:.4f}</td>" in html


def test_a_data_frame_has_a_row_for_each_measured_point(table: LatencyTable) -> None:
    pytest.importorskip("pandas")
    frame = table.to_dataframe()
    assert list(frame.columns) == ["layer", "layers", *AXES, "ms", "spread_ms", "rounds"]
    assert len(frame) == sum(int((grid.rounds > 0).sum()) for grid in table.grids)
    assert (frame["rounds"] > 0).all()
    for grid in table.grids:
        own = frame[frame["layer"] == grid.label]
        full = own[[axis for axis in AXES if axis in grid.axes]].max().to_dict()
        assert full == {axis: points[-1] for axis, points in grid.axes.items()}
        assert own[[axis for axis in AXES if axis not in grid.axes]].isna().all().all()
        assert own["ms"].iloc[-1] == grid.ms.flat[-1]


def test_a_data_frame_of_layers_without_axes(network: Network, table: LatencyTable) -> None:
    pytest.importorskip("pandas")
    empty = table_from_arrays(network, {}, device=table.device, others="free")
    assert len(empty.to_dataframe()) == 0
    grid = replace(
        table.grids[0], axes={}, ms=np.array(1.5), spread_ms=np.array(0.5), rounds=np.array(3, np.int32)
    )
    (row,) = replace(table, grids=(replace(grid, layers=("a", "b")),)).to_dataframe().to_dict("records")
    assert (row["layers"], row["ms"], row["spread_ms"], row["rounds"]) == ("a, b", 1.5, 0.5, 3)


def test_a_predictor_says_of_what(table: LatencyTable, space) -> None:
    assert repr(LatencyPredictor(table, space)).startswith("<LatencyPredictor of 'small': ")
