"""Tables of several networks in one, and two tables side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from core_networks import small_resnet
from latency_samples import SyntheticDevice, quick_options

from jcw_core.cli import build
from jcw_core.errors import DeviceError, FormatError
from jcw_core.network import Network
from jcw_core.registry import Registry
from jcw_core.space import SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable, profile
from jcw_latency.tables import compare, merge
from jcw_latency.whole_run import WholeRun


@pytest.fixture(scope="module")
def other() -> LatencyTable:
    """Another network that shares some layers: two more classes change the last one alone."""
    network = Network("other", small_resnet(width=16, classes=5).nodes)
    return profile(network, SyntheticDevice(), quick_options(), rng=np.random.default_rng(0))


def test_merged_tables_predict_all_their_networks(table: LatencyTable, other: LatencyTable) -> None:
    other = replace(other, whole={"other": WholeRun(1.5, 0.1)})
    joined = merge([table, other])
    assert len(joined.grids) == len(table.grids) + 1
    for single in (table, other):
        space = SearchSpace.of(single.networks[0])
        population = space.sample(20, np.random.default_rng(0))
        np.testing.assert_array_equal(
            LatencyPredictor(joined, space).predict(population),
            LatencyPredictor(single, space).predict(population),
        )


def test_the_grid_with_more_axes_is_kept(table: LatencyTable) -> None:
    poor = [replace(g, axes={}, ms=g.ms[-1:].flat[-1:].reshape(()), spread_ms=np.zeros(()), rounds=np.ones((), np.int32))
            for g in table.grids]  # fmt: skip
    joined = merge([replace(table, grids=tuple(poor)), table])
    assert [dict(g.axes) for g in joined.grids] == [dict(g.axes) for g in table.grids]


def test_only_tables_of_one_device_merge(table: LatencyTable, other: LatencyTable) -> None:
    with pytest.raises(DeviceError, match="isa"):
        merge([table, replace(other, device=replace(other.device, isa="avx2"))])
    with pytest.raises(FormatError, match="named 'small'"):
        merge([table, replace(other, networks=(Network("small", other.networks[0].nodes),))])


def test_drift_is_found(table: LatencyTable) -> None:
    slower = replace(table, grids=tuple(replace(g, ms=1.25 * g.ms) for g in table.grids))
    changes = compare(table, slower)
    assert len(changes) == len(table.grids)
    for change in changes:
        assert (change.ratio, change.lowest, change.highest) == pytest.approx((1.25,) * 3)
        assert change.second_ms == pytest.approx(1.25 * change.first_ms)
    with pytest.raises(FormatError, match="in common"):
        compare(table, replace(table, grids=()))


def test_commands(table: LatencyTable, other: LatencyTable, tmp_path: Path) -> None:
    table.write(tmp_path / "one.npz")
    replace(other, whole={"other": WholeRun(1.5, 0.1)}).write(tmp_path / "two.npz")

    def jcw(*arguments: object) -> str:
        result = CliRunner().invoke(
            build(Registry()), ["table", *map(str, arguments)], catch_exceptions=False, terminal_width=200
        )
        assert result.exit_code == 0, result.output
        return result.output

    joined = tmp_path / "joined.npz"
    assert "small, other" in jcw("merge", tmp_path / "one.npz", tmp_path / "two.npz", "-o", joined)
    shown = jcw("show", joined)
    assert "formula, none, 1 thread(s), formula 1" in shown
    assert "1.500 x layers + 0.1000 ms" in shown
    assert f"median ratio of {len(table.grids)} layers: 1.000" in jcw("diff", tmp_path / "one.npz", joined)
