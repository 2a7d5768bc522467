"""Older tables are read; damaged and malformed ones are a FormatError that names the file, or harmless."""

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
from damage import misplace
from hypothesis import given, settings
from hypothesis import strategies as st

from jcw_core.errors import FormatError, JcwError
from jcw_core.network.problem import LayerProblem
from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable
from jcw_latency.commands import table as table_commands
from jcw_latency.table import npz
from jcw_latency.table.compare import merge
from jcw_latency.table.end_to_end import EndToEndFit
from jcw_latency.table.table import FORMAT

SECOND = LayerProblem("conv2d", 8, 4, 5, 8, (3, 3), padding=(1, 1), groups=8)
PAIR = LayerProblem("conv2d", 6, 4, 5, 8, then=SECOND)


def _read(path: Path) -> LatencyTable | None:
    """The table, or None for a ``FormatError`` that names the file. Anything else is a failure."""
    try:
        return LatencyTable.load(path)
    except FormatError as error:
        if str(path) not in str(error):
            raise
        return None


def test_missing_table(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.npz: no such file"):
        LatencyTable.load(tmp_path / "none.npz")


@settings(max_examples=60)
@given(data=st.data())
def test_truncated_table(table_file: Path, data: st.DataObject) -> None:
    content = table_file.read_bytes()
    cut = table_file.with_name("cut.npz")
    cut.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(FormatError, match=r"cut\.npz: .*profile again"):
        LatencyTable.load(cut)


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
        merge([read, read]).save(path)


@settings(max_examples=200)
@given(data=st.data())
def test_malformed_metadata(table_file: Path, data: st.DataObject) -> None:
    """Any value in the place of any other is a FormatError or a table that holds together."""
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    document["whole"] = {"small": EndToEndFit().to_dict()}
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
def test_impossible_values_in_metadata(table_file: Path, place: tuple[object, ...], value: object) -> None:
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    document["whole"] = {"small": EndToEndFit().to_dict()}
    where: Any = document
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = value
    _rewrite(table_file, document)
    with pytest.raises(FormatError, match=r"table\.npz: .*profile again"):
        LatencyTable.load(table_file)


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
        LatencyTable.load(table_file)


def test_a_second_convolution_nested_without_end(table_file: Path) -> None:
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    text = json.dumps(document)
    for depth in (20, 400, 900, 5000, 100_000):
        malformed = text.replace('"then": null', '"then": ' + '{"then": ' * depth + "1" + "}" * depth, 1)
        _rewrite(table_file, malformed)
        with pytest.raises(FormatError, match=r"table\.npz"):
            LatencyTable.load(table_file)


def test_tables_that_do_not_say_which_networks_ran_are_read(table: LatencyTable, table_file: Path) -> None:
    """As they were written before they did."""
    replace(table, end_to_end={"small": EndToEndFit(1.1, -0.25)}).save(table_file)
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    del document["whole"]["small"]["smallest_ms"]
    _rewrite(table_file, document)
    assert LatencyTable.load(table_file).end_to_end["small"].of(np.array([0.5])) == pytest.approx(
        1.1 * 0.5 - 0.25
    )


def test_tables_without_second_convolutions_are_read(table: LatencyTable, table_file: Path) -> None:
    """As they were written before there were any."""
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    for layer in document["layers"]:
        if layer["problem"]["then"] is None:
            del layer["problem"]["then"]
    _rewrite(table_file, document)
    assert [g.problem for g in LatencyTable.load(table_file).grids] == [g.problem for g in table.grids]


def test_objects_are_never_unpickled(table_file: Path) -> None:
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
    _rewrite(table_file, document, **{"0000.ms": np.array([Bomb()], dtype=object)})
    with pytest.raises(FormatError, match=r"0000\.ms"):
        LatencyTable.load(table_file)


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
        LatencyTable.load(table_file)


def test_nan_in_a_file(table_file: Path) -> None:
    with npz.Reader(table_file, FORMAT, "") as reader:
        document = reader.metadata
        array = reader.array("0001.ms", LatencyTable.load(table_file).grids[1].ms.shape, "float64").copy()
    array.flat[3] = np.nan
    _rewrite(table_file, document, **{"0001.ms": array})
    with pytest.raises(FormatError, match=r"table\.npz: conv2d .* holds NaN"):
        LatencyTable.load(table_file)
