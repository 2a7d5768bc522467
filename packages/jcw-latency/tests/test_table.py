"""Tables: read back from disk as they were, and impossible ones refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from core_networks import networks
from hypothesis import example, given, settings
from latency_samples import SyntheticDevice, measured

from jcw_core.errors import DeviceError, FormatError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse
from jcw_core.network.problem import LayerProblem
from jcw_core.network.problem_text import describe
from jcw_latency import LatencyTable, LayerGrid, table_from_arrays
from jcw_latency.table import npz
from jcw_latency.table.end_to_end import EndToEndFit


def test_read_back(table: LatencyTable, table_file: Path) -> None:
    table = replace(table, end_to_end={"small": EndToEndFit(1.1, 0.25, 0.5, 3.0, 0.75)})
    table.save(table_file)
    assert_same(LatencyTable.load(table_file), table)
    table.save(str(table_file))
    assert_same(LatencyTable.load(str(table_file)), table)


def assert_same(read: LatencyTable, table: LatencyTable) -> None:
    assert (read.device, read.networks, read.end_to_end) == (
        table.device,
        table.networks,
        dict(table.end_to_end),
    )
    assert read.settings == dict(table.settings)
    for one, other in zip(table.grids, read.grids, strict=True):
        assert (one.problem, dict(one.axes), one.layers) == (other.problem, dict(other.axes), other.layers)
        for name in ("ms", "spread_ms", "rounds"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), strict=True)


def grouped() -> Network:
    """Layers without any axis: grouped convolutions keep all channels, and pooling the input has nothing to prune."""
    net = NetworkBuilder("grouped", (4, 9, 9))
    net.pool("pool", "max_pool", 3, 2)
    net.conv("conv", 8, 3)
    net.conv("group", 8, 3, groups=2)
    return net.build()


@settings(max_examples=40)
@example(network=grouped())
@given(network=networks())
def test_tables_of_any_network_are_read_back(network: Network, tmp_path: Path) -> None:
    table = measured(network, SyntheticDevice(), widths=2, densities=2)
    table.save(tmp_path / "any.npz")
    assert_same(LatencyTable.load(tmp_path / "any.npz"), table)


def test_arrays_are_written_row_by_row(table: LatencyTable, table_file: Path) -> None:
    turned = replace(table, grids=tuple(replace(g, ms=np.asfortranarray(g.ms)) for g in table.grids))
    turned.save(table_file)
    assert_same(LatencyTable.load(table_file), table)


def test_a_table_is_read_back_when_it_is_written(
    table: LatencyTable, table_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npz, "write", lambda path, metadata, arrays: path.write_bytes(b"PK"))
    with pytest.raises(FormatError, match=r"table\.npz: not an npz file"):
        table.save(table_file)


@pytest.mark.parametrize("name", ["scale", "overhead_ms", "quadratic", "reference_ms", "smallest_ms"])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_end_to_end_fit_refuses_impossible_values(name: str, value: float) -> None:
    if name == "overhead_ms" and value == -1:
        assert EndToEndFit(overhead_ms=value).of(np.array([3.0])) == 2
        return
    with pytest.raises(FormatError, match="impossible"):
        EndToEndFit(**{name: value})


def test_end_to_end_fit_of_the_smallest_run_is_positive() -> None:
    with pytest.raises(FormatError, match="impossible"):
        EndToEndFit(scale=0.0)
    with pytest.raises(FormatError, match="impossible cost of the smallest"):
        EndToEndFit(1.0, -0.3, smallest_ms=0.2)


def test_equal_tables_are_equal_files(table: LatencyTable, table_file: Path, tmp_path: Path) -> None:
    LatencyTable.load(table_file).save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == table_file.read_bytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_grids_hold_times(table: LatencyTable, value: float) -> None:
    grid = table.grids[0]
    ms = grid.ms.copy()
    ms.flat[-1] = value
    with pytest.raises(FormatError, match="conv2d 3x3 3 -> 16 at 8 x 8"):
        replace(grid, ms=ms)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"out": (0.0, 8.0)}, "expected 0 to 16"),
        ({"out": (4.0, 16.0)}, "expected 0 to 16"),
        ({"out": (0.0, 20.0, 16.0)}, "rising"),
        ({"out": (16.0,)}, "rising"),
        ({"depth": (0.0, 16.0)}, "'depth'"),
    ],
)
def test_impossible_axes(axes: dict[str, tuple[float, ...]], message: str) -> None:
    shape = tuple(map(len, axes.values()))
    problem = LayerProblem("conv2d", 3, 8, 8, 16, (3, 3), (1, 1), (1, 1))
    with pytest.raises(FormatError, match=message):
        LayerGrid(problem, axes, np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int32))


def test_grid_of_another_shape(table: LatencyTable) -> None:
    with pytest.raises(FormatError, match=r"rounds has shape \(1,\)"):
        replace(table.grids[0], rounds=np.zeros(1, np.int32))


def test_tables_of_several_networks(table: LatencyTable, network: Network) -> None:
    assert table.network() == table.network("small") == network
    with pytest.raises(FormatError, match="no network 'other'"):
        table.network("other")
    with pytest.raises(FormatError, match="say which network"):
        replace(table, networks=(network, Network("second", network.nodes))).network()


def test_table_of_another_device_or_engine_is_refused(table: LatencyTable) -> None:
    table.require(replace(table.device, name="renamed"))
    with pytest.raises(DeviceError, match="versions"):
        table.require(replace(table.device, versions={"formula": "2"}))
    with pytest.raises(DeviceError, match=r"isa 'none'.*'avx2'"):
        table.require(replace(table.device, isa="avx2"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nothing": np.zeros(3)}, "no layer 'nothing'"),
        ({"stem": np.zeros((2, 2))}, "expected the axes in, out, density"),
        ({"stem": np.full((2, 2, 2), np.nan)}, "NaN"),
        ({}, "no array for 'stem'"),
    ],
)
def test_import_says_what_is_wrong(
    network: Network, table: LatencyTable, change: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        table_from_arrays(network, change, device=table.device)


def test_description_of_a_problem(network: Network, table: LatencyTable) -> None:
    labels = [describe(table.grid(network, layer).problem) for layer in fuse(network)]
    assert "conv2d 3x3/2 depthwise 28 -> 28 at 8 x 8" in labels
    assert any("+ residual + relu" in label for label in labels)
    assert "conv2d 16 -> 12 at 8 x 8 + relu, 3x3 depthwise" in labels
    second = LayerProblem("conv2d", 8, 4, 5, 8, (3, 3), (2, 2), (1, 1), 8, activation="relu6", residual=True)
    assert (
        describe(LayerProblem("conv2d", 6, 4, 5, 8, then=second))
        == "conv2d 6 -> 8 at 4 x 5, 3x3/2 depthwise + residual + relu6"
    )
