"""Tables on disk: read back as they were; anything damaged is a FormatError that names the file."""

from __future__ import annotations

import json
import zipfile
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from core_networks import networks
from damage import misplace
from hypothesis import example, given, settings
from hypothesis import strategies as st
from latency_samples import SyntheticDevice, measured

from jcw_core.errors import DeviceError, FormatError, JcwError
from jcw_core.fusion import fuse
from jcw_core.network import Network
from jcw_core.network_builder import NetworkBuilder
from jcw_core.problem import LayerProblem
from jcw_core.space import SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable, LayerGrid, npz, table_commands, table_from_arrays
from jcw_latency.problems import describe
from jcw_latency.table import FORMAT
from jcw_latency.tables import merge
from jcw_latency.whole_run import WholeRun

SECOND = LayerProblem("conv2d", 8, 4, 5, 8, (3, 3), padding=(1, 1), groups=8)
PAIR = LayerProblem("conv2d", 6, 4, 5, 8, then=SECOND)


def test_read_back(table: LatencyTable, table_file: Path) -> None:
    table = replace(table, whole={"small": WholeRun(1.1, 0.25, 0.5, 3.0, 0.75)})
    table.write(table_file)
    assert_same(LatencyTable.read(table_file), table)


def assert_same(read: LatencyTable, table: LatencyTable) -> None:
    assert (read.device, read.networks, read.whole) == (table.device, table.networks, dict(table.whole))
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
    table.write(tmp_path / "any.npz")
    assert_same(LatencyTable.read(tmp_path / "any.npz"), table)


def test_arrays_are_written_row_by_row(table: LatencyTable, table_file: Path) -> None:
    turned = replace(table, grids=tuple(replace(g, ms=np.asfortranarray(g.ms)) for g in table.grids))
    turned.write(table_file)
    assert_same(LatencyTable.read(table_file), table)


def test_a_table_is_read_back_when_it_is_written(
    table: LatencyTable, table_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npz, "write", lambda path, metadata, arrays: path.write_bytes(b"PK"))
    with pytest.raises(FormatError, match=r"table\.npz: not an npz file"):
        table.write(table_file)


@pytest.mark.parametrize("name", ["scale", "overhead_ms", "bend", "reference_ms", "smallest_ms"])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_impossible_whole_runs(name: str, value: float) -> None:
    if name == "overhead_ms" and value == -1:
        assert WholeRun(overhead_ms=value).of(np.array([3.0])) == 2
        return
    with pytest.raises(FormatError, match="impossible"):
        WholeRun(**{name: value})


def test_whole_runs_cost_something() -> None:
    with pytest.raises(FormatError, match="impossible"):
        WholeRun(scale=0.0)
    with pytest.raises(FormatError, match="impossible cost of the smallest"):
        WholeRun(1.0, -0.3, smallest_ms=0.2)


def test_tables_that_do_not_say_which_networks_ran_are_read(table: LatencyTable, table_file: Path) -> None:
    """As they were written before they did."""
    replace(table, whole={"small": WholeRun(1.1, -0.25)}).write(table_file)
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    del document["whole"]["small"]["smallest_ms"]
    _rewrite(table_file, document)
    assert LatencyTable.read(table_file).whole["small"].of(np.array([0.5])) == pytest.approx(1.1 * 0.5 - 0.25)


def test_equal_tables_are_equal_files(table: LatencyTable, table_file: Path, tmp_path: Path) -> None:
    LatencyTable.read(table_file).write(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == table_file.read_bytes()


def _read(path: Path) -> LatencyTable | None:
    """The table, or None for a ``FormatError`` that names the file. Anything else is a failure."""
    try:
        return LatencyTable.read(path)
    except FormatError as error:
        if str(path) not in str(error):
            raise
        return None


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.npz: no such file"):
        LatencyTable.read(tmp_path / "none.npz")


@settings(max_examples=60)
@given(data=st.data())
def test_truncated(table_file: Path, data: st.DataObject) -> None:
    content = table_file.read_bytes()
    cut = table_file.with_name("cut.npz")
    cut.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(FormatError, match=r"cut\.npz: .*profile again"):
        LatencyTable.read(cut)


@settings(max_examples=300)
@given(data=st.data())
def test_flipped_bytes_are_found_or_harmless(
    table: LatencyTable, table_file: Path, data: st.DataObject
) -> None:
    content = bytearray(table_file.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[place] ^= data.draw(st.integers(1, 255))
    hurt = table_file.with_name("hurt.npz")
    hurt.write_bytes(content)
    read = _read(hurt)
    if read is not None:
        # The zip's checksums cover all but its own bookkeeping.
        assert read.networks == table.networks
        np.testing.assert_array_equal(read.grids[0].ms, table.grids[0].ms)


def _use(path: Path, read: LatencyTable) -> None:
    """Whatever was accepted is shown and predicts, or is one error."""
    shown = CliRunner().invoke(table_commands.table, ["show", str(path)], catch_exceptions=False)
    assert shown.exit_code == 0
    with suppress(JcwError), np.errstate(over="ignore", invalid="ignore"):
        for network in read.networks:
            space = SearchSpace.of(network, step=1)
            predictor = LatencyPredictor(read, space)
            assert predictor.predict(space.high[None]).shape == (1,)
            predictor.breakdown(space.architecture(space.low))
        merge([read, read]).write(path)


@settings(max_examples=200)
@given(data=st.data())
def test_hostile_metadata(table_file: Path, data: st.DataObject) -> None:
    """Any value in the place of any other is a FormatError or a table that holds together."""
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    document["whole"] = {"small": asdict(WholeRun())}
    misplace(data, document)
    hurt = table_file.with_name("hurt.npz")
    hurt.write_bytes(table_file.read_bytes())
    _rewrite(hurt, document)
    read = _read(hurt)
    if read is not None:
        _use(hurt, read)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("whole", "small", "scale"), 10**400), (("layers", 0, "axes", "out", 1), 10**400),
        (("layers", 0, "axes", "out", 1), float("nan")), (("layers", 0, "problem", "kernel_size"), [3]),
        (("layers", 0, "problem", "kernel_size"), [3, 3, 3]), (("layers", 0, "problem", "in_channels"), 3.0),
        (("layers", 0, "problem", "padding"), [1.5, 1]),
        (("layers", 0, "problem", "residual"), 1), (("layers", 0, "problem", "activation"), ["relu"]),
        (("settings", "grid"), float("inf")), (("device", "versions"), [1]), (("device", "versions"), None), (("device", "versions"), {"engine": 2}),
        (("device", "cpu"), 7), (("device", "threads"), "1"), (("device", "threads"), 0),
    ],
)  # fmt: skip
def test_values_that_mean_nothing(table_file: Path, place: tuple[object, ...], value: object) -> None:
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    document["whole"] = {"small": asdict(WholeRun())}
    where: Any = document
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = value
    _rewrite(table_file, document)
    with pytest.raises(FormatError, match=r"table\.npz: .*profile again"):
        LatencyTable.read(table_file)


def _rewrite(path: Path, document: object, **arrays: np.ndarray) -> None:
    """Put other metadata, a document or its text, and other arrays into a table."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = document if isinstance(document, str) else json.dumps(document)
    text = np.frombuffer(content.encode(), np.uint8)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            stem = name.removesuffix(".npy")
            if stem == npz.METADATA or stem in arrays:
                with archive.open(name, "w") as member:
                    np.lib.format.write_array(member, text if stem == npz.METADATA else arrays[stem])
            else:
                archive.writestr(name, content)


def _nested(second: object) -> object:
    return {**asdict(PAIR), "then": second}


@pytest.mark.parametrize(
    ("then", "message"),
    [
        ({**asdict(SECOND), "in_height": 5}, "reads 8 x 5 x 5, but the first one makes 8 x 4 x 5"),
        ({**asdict(SECOND), "groups": 4}, "is not a depthwise one"),
        ({**asdict(SECOND), "out_channels": 1 << 60}, "layer problem"),
        ({**asdict(SECOND), "groups": 0}, "impossible"),
        ({**asdict(SECOND), "then": asdict(SECOND)}, "layer problem"),
        (_nested(_nested(None)), "metadata is damaged"),
        ({**asdict(SECOND), "window": 3}, "metadata is damaged"),
        ({}, "metadata is damaged"),
        (asdict(SECOND) | {"stride": 1}, "metadata is damaged"),
        (False, "metadata is damaged"),
        ([SECOND.op], "metadata is damaged"),
    ],
)  # fmt: skip
def test_a_second_convolution_is_checked_too(table_file: Path, then: object, message: str) -> None:
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    layer = next(layer for layer in document["layers"] if layer["problem"]["then"])
    layer["problem"] |= {name: value for name, value in asdict(PAIR).items() if name != "then"}
    layer["problem"]["then"] = then
    _rewrite(table_file, document)
    with pytest.raises(FormatError, match=rf"table\.npz: .*{message}"):
        LatencyTable.read(table_file)


def test_a_second_convolution_nested_without_end(table_file: Path) -> None:
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    text = json.dumps(document)
    for depth in (20, 400, 900, 5000, 100_000):
        hostile = text.replace('"then": null', '"then": ' + '{"then": ' * depth + "1" + "}" * depth, 1)
        _rewrite(table_file, hostile)
        with pytest.raises(FormatError, match=r"table\.npz"):
            LatencyTable.read(table_file)


def test_tables_without_second_convolutions_are_read(table: LatencyTable, table_file: Path) -> None:
    """As they were written before there were any."""
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    for layer in document["layers"]:
        if layer["problem"]["then"] is None:
            del layer["problem"]["then"]
    _rewrite(table_file, document)
    assert [g.problem for g in LatencyTable.read(table_file).grids] == [g.problem for g in table.grids]


def test_objects_are_never_unpickled(table_file: Path) -> None:
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    _rewrite(table_file, document, **{"0000.ms": np.array([Bomb()], dtype=object)})
    with pytest.raises(FormatError, match=r"0000\.ms"):
        LatencyTable.read(table_file)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        raise_if_called = (pytest.fail, ("unpickled",))
        return raise_if_called


def test_claimed_sizes_are_checked_before_memory_is_taken(table_file: Path) -> None:
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    document["layers"][0]["axes"] = {"in": [0.0, *(float(i) for i in range(1, 1001))], "out": [0, 16]}
    _rewrite(table_file, document)
    with pytest.raises(FormatError, match="expected"):
        LatencyTable.read(table_file)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_grids_hold_times(table: LatencyTable, value: float) -> None:
    grid = table.grids[0]
    ms = grid.ms.copy()
    ms.flat[-1] = value
    with pytest.raises(FormatError, match="conv2d 3x3 3 -> 16 at 8 x 8"):
        replace(grid, ms=ms)


def test_nan_in_a_file(table_file: Path) -> None:
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
        array = reader.array("0001.ms", LatencyTable.read(table_file).grids[1].ms.shape, "float64").copy()
    array.flat[3] = np.nan
    _rewrite(table_file, document, **{"0001.ms": array})
    with pytest.raises(FormatError, match=r"table\.npz: conv2d .* holds NaN"):
        LatencyTable.read(table_file)


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


def test_another_engine(table: LatencyTable) -> None:
    table.require(replace(table.device, name="renamed"))
    with pytest.raises(DeviceError, match="versions"):
        table.require(replace(table.device, versions={"formula": "2"}))
    with pytest.raises(DeviceError, match=r"isa 'none'.*'avx2'"):
        table.require(replace(table.device, isa="avx2"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nothing": np.zeros(3)}, "no unit 'nothing'"),
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
    labels = [describe(table.grid(network, unit).problem) for unit in fuse(network)]
    assert "conv2d 3x3/2 depthwise 28 -> 28 at 8 x 8" in labels
    assert any("+ residual + relu" in label for label in labels)
    assert "conv2d 16 -> 12 at 8 x 8 + relu, 3x3 depthwise" in labels
    second = replace(SECOND, stride=(2, 2), residual=True, activation="relu6")
    assert (
        describe(replace(PAIR, then=second)) == "conv2d 6 -> 8 at 4 x 5, 3x3/2 depthwise + residual + relu6"
    )
