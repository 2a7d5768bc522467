"""Tables of several networks in one, and two tables side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from core_networks import small_resnet
from latency_samples import SyntheticDevice, assert_same_times, measured, quick_options

from jcw_core.cli.main import build
from jcw_core.errors import DeviceError, FormatError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.registry import Registry
from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable, profile, table_from_arrays
from jcw_latency.table.compare import compare, merge
from jcw_latency.table.end_to_end import EndToEndFit


@pytest.fixture(scope="module")
def other() -> LatencyTable:
    """Another network that shares some layers: two more classes change the last one alone."""
    network = Network("other", small_resnet(width=16, classes=5).nodes)
    return profile(network, SyntheticDevice(), quick_options(), rng=np.random.default_rng(0))


def test_merged_tables_predict_all_their_networks(table: LatencyTable, other: LatencyTable) -> None:
    other = replace(other, end_to_end={"other": EndToEndFit(1.5, 0.1)})
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


def test_the_first_of_equal_grids_is_kept(table: LatencyTable) -> None:
    later = replace(table, grids=tuple(replace(g, ms=2 * g.ms) for g in table.grids))
    assert_same_times(merge([table, later]), table)


def test_grids_of_which_none_has_all_axes_are_both_kept() -> None:
    """``x`` varies along its input and density in one network, along its output in the other."""
    inner, first = NetworkBuilder("inner", (8, 8, 8)), NetworkBuilder("first", (32, 8, 8))
    inner.conv("stem", 32, 3)
    inner.conv("x", 32, 3)
    first.conv("x", 32, 3)
    first.conv("head", 16, 3)
    tables = [measured(net.build(), SyntheticDevice()) for net in (inner, first)]
    joined = merge([*tables, *tables])
    assert len(joined.grids) == 4
    for single in tables:
        space = SearchSpace.of(single.networks[0])
        population = space.sample(300, np.random.default_rng(0))
        np.testing.assert_array_equal(
            LatencyPredictor(joined, space).predict(population),
            LatencyPredictor(single, space).predict(population),
        )


def test_layers_that_cannot_be_compared_are_counted(table: LatencyTable, other: LatencyTable) -> None:
    finer = measured(table.networks[0], SyntheticDevice(), densities=4)
    dense = [g for g in table.grids if "density" not in g.axes]
    found = compare(table, finer)
    assert [change.label for change in found.changes] == [grid.label for grid in dense]
    assert (found.other_points, found.in_one_only) == (len(table.grids) - len(dense), 0)
    assert found.left_out.startswith(f"{found.other_points} on grids of other points")
    assert compare(table, other).left_out == "2 in one of the tables only"


def test_arrays_in_another_order_are_not_compared(network: Network) -> None:
    orders = (("in", "out", "density"), ("out", "in", "density"))
    one, other = (
        table_from_arrays(
            network,
            {"block.conv1": np.ones((3, 3, 4))},
            axes=order,
            device=SyntheticDevice().describe(),
            others="free",
        )
        for order in orders
    )
    assert compare(one, other).other_points == 1


def test_only_tables_of_one_device_merge(table: LatencyTable, other: LatencyTable) -> None:
    with pytest.raises(DeviceError, match="isa"):
        merge([table, replace(other, device=replace(other.device, isa="avx2"))])
    with pytest.raises(FormatError, match="named 'small'"):
        merge([table, replace(other, networks=(Network("small", other.networks[0].nodes),))])


def test_diff_finds_drift(table: LatencyTable) -> None:
    slower = replace(table, grids=tuple(replace(g, ms=1.25 * g.ms) for g in table.grids))
    found = compare(table, slower)
    assert len(found.changes) == len(table.grids)
    assert not found.left_out
    for change in found.changes:
        assert (change.ratio, change.lowest, change.highest) == pytest.approx((1.25,) * 3)
        assert change.second_ms == pytest.approx(1.25 * change.first_ms)
    with pytest.raises(FormatError, match="in common"):
        compare(table, replace(table, grids=()))


def test_table_show_diff_and_merge(table: LatencyTable, other: LatencyTable, tmp_path: Path) -> None:
    table.save(tmp_path / "one.npz")
    replace(other, end_to_end={"other": EndToEndFit(1.5, 0.1)}).save(tmp_path / "two.npz")

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
    compared = jcw("diff", tmp_path / "one.npz", joined)
    assert f"median ratio of {len(table.grids)} layers: 1.000" in compared
    assert "not compared: 1 in one of the tables only" in compared
    assert max(map(len, compared.splitlines())) > 60
    document = json.loads(jcw("show", joined, "--json"))
    assert [network["name"] for network in document["networks"]] == ["small", "other"]
    assert document["networks"][1]["whole"]["scale"] == 1.5
    assert document["device"] == table.device.to_dict()
    first = document["layers"][0]
    assert (first["layer"], first["full_ms"]) == (table.grids[0].label, table.grids[0].ms.flat[-1])
    assert first["points"] == {axis: len(points) for axis, points in table.grids[0].axes.items()}
    changes = json.loads(jcw("diff", tmp_path / "one.npz", joined, "--json"))
    assert (changes["device"], changes["in_one_only"], len(changes["changes"])) == ({}, 1, len(table.grids))
