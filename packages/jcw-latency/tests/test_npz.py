"""Malformed ``.npz`` archives: damaged headers, compression bombs and unprintable text are one-line errors."""

from __future__ import annotations

import json
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_samples import SyntheticDevice

from jcw_core.errors import DeviceError, FormatError, NetworkError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.protocols import DeviceInfo
from jcw_latency import LatencyOptions, LatencyTable, profile
from jcw_latency.commands.table import table as table_command
from jcw_latency.table import npz


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(path: Path, changes: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """A copy of a table in which some members, or all of them by another method, are replaced."""
    hurt = path.with_name("hurt.npz")
    with zipfile.ZipFile(hurt, "w", method) as archive:
        for name, content in {**members(path), **changes}.items():
            archive.writestr(name, content)
    return hurt


def npy(header: str, content: bytes = b"") -> bytes:
    encoded = header.encode("utf-8", "surrogatepass")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(encoded)) + encoded + content


def refused(path: Path) -> str:
    with pytest.raises(FormatError, match=r"hurt\.npz: ") as caught:
        LatencyTable.load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def metadata(path: Path) -> dict[str, Any]:
    content = members(path)["metadata.npy"]
    document: dict[str, Any] = json.loads(content[content.index(b"\n") + 1 :])
    return document


def with_metadata(path: Path, text: str) -> Path:
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(text.encode())},), }}\n"
    return rewritten(path, {"metadata.npy": npy(header, text.encode())})


words = st.sampled_from(
    [
     "'descr'", "'<f8'", "'shape'", "(2, 3)", "(", ")", "{", "}", "[", ":", ",", '"""', "'", "\\", "\n", "0o", "1L", "9" * 5000,
     "'|O'", "('a', '<f8')", "None", "-1", "1e9", "b'", "f'{x}'", "lambda: 0", "\0", "\ud800", "\x0c", "    ", "#", "!",
    ]
)  # fmt: skip
headers = st.lists(words, max_size=12).map(" ".join) | st.text(max_size=60)


@settings(max_examples=200)
@given(header=headers, name=st.sampled_from(["0000.ms", "metadata", "0001.rounds"]))
def test_any_text_as_the_header_of_an_array(table_file: Path, header: str, name: str) -> None:
    refused(rewritten(table_file, {f"{name}.npy": npy(header, b"\0" * 64)}))


@settings(max_examples=200)
@given(data=st.data())
def test_flipped_bytes_in_the_header_of_an_array(table_file: Path, data: st.DataObject) -> None:
    """The zip's checksum is right, as it is for a file that someone else's program wrote."""
    name = data.draw(st.sampled_from(["0000.ms.npy", "metadata.npy"]))
    content = bytearray(members(table_file)[name])
    for place in data.draw(st.lists(st.integers(0, content.index(b"\n")), min_size=1, max_size=3)):
        content[place] = data.draw(st.integers(0, 255))
    try:
        LatencyTable.load(rewritten(table_file, {name: bytes(content)}))
    except FormatError as error:
        assert "hurt.npz" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
@settings(max_examples=25)
@given(data=st.data())
def test_damaged_members_of_any_compression(table_file: Path, method: int, data: st.DataObject) -> None:
    hurt = rewritten(table_file, {}, method)
    content = bytearray(hurt.read_bytes())
    start = 30 + len("metadata.npy")
    for place in data.draw(st.lists(st.integers(start, start + 99), min_size=1, max_size=9)):
        content[place] ^= data.draw(st.integers(1, 255))
    hurt.write_bytes(content)
    try:
        LatencyTable.load(hurt)
    except FormatError as error:
        assert "hurt.npz" in str(error)  # noqa: PT017


def _long_text(path: Path) -> Path:
    return with_metadata(path, json.dumps({"format": "jcw-table/1", "settings": "x" * 40_000_000}))


def _many_objects(path: Path) -> Path:
    return with_metadata(path, '{"format": "jcw-table/1", "settings": [' + "{}," * 6_000_000 + "1]}")


def _large_array(path: Path) -> Path:
    return rewritten(path, {"unused.npy": b"\0" * 60_000_000})


def _claims_little(path: Path) -> Path:
    """The directory claims fewer bytes than the member inflates to."""
    hurt = _many_objects(path)
    content = hurt.read_bytes()
    entry = content.rindex(b"PK\x01\x02", 0, content.rindex(b"metadata.npy"))
    hurt.write_bytes(content[: entry + 24] + struct.pack("<I", 5000) + content[entry + 28 :])
    return hurt


def _many_of_one(path: Path) -> Path:
    """Every entry of the directory is the same megabyte."""
    hurt = path.with_name("hurt.npz")
    with zipfile.ZipFile(hurt, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("0.npy", b"\0" * 2**20)
        archive.filelist += archive.filelist * 99
    return hurt


@pytest.mark.parametrize("bomb", [_long_text, _many_objects, _large_array, _claims_little, _many_of_one])
def test_small_files_take_little_memory(table_file: Path, bomb: Callable[[Path], Path]) -> None:
    hurt = bomb(table_file)
    assert hurt.stat().st_size < 300_000
    tracemalloc.start()
    try:
        refused(hurt)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30 * 2**20


def test_metadata_costs_a_bounded_multiple(table_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is just short enough to be parsed costs what its limit allows, whatever it holds."""
    assert npz._METADATA_LIMIT == 8 * 2**20
    monkeypatch.setattr(npz, "_METADATA_LIMIT", 2**18)
    for filling in ("[],", "{},", '"",', "0.5,", '{"a":1},', '"a",'):
        text = '{"format": "other", "settings": [' + filling * (2**18 // len(filling) - 99) + "1]}"
        hurt = with_metadata(table_file, text)
        tracemalloc.start()
        try:
            refused(hurt)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 40 * 2**18


steering = st.characters(categories=["Cc", "Cs", "Zl", "Zp"])
texts = st.builds("{}{}{}".format, st.text(max_size=3), steering, st.text(max_size=3))


def _text_places(document: Any) -> list[tuple[Any, Any]]:
    """Where texts stand within a document, keys left out."""
    found = []
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        if isinstance(value, str):
            found.append((document, key))
        elif isinstance(value, (dict, list)):
            found += _text_places(value)
    return found


@settings(max_examples=100)
@given(data=st.data(), text=texts)
def test_text_that_no_terminal_should_show_is_refused(
    table_file: Path, data: st.DataObject, text: str
) -> None:
    document = metadata(table_file)
    document["networks"] = [json.loads(network) for network in document["networks"]]
    where, key = data.draw(st.sampled_from(_text_places(document)))
    if data.draw(st.booleans()) and isinstance(where, dict):
        where[text] = where.pop(key)
    else:
        where[key] = text
    document["networks"] = [json.dumps(network) for network in document["networks"]]
    hurt = with_metadata(table_file, json.dumps(document))
    assert refused(hurt).isprintable()
    shown = CliRunner().invoke(table_command, ["show", str(hurt)])
    assert isinstance(shown.exception, FormatError)


@settings(max_examples=30)
@given(texts)
def test_nothing_is_timed_for_a_network_whose_table_could_not_be_read(text: str) -> None:
    device = SyntheticDevice()
    net = NetworkBuilder(text, (3, 8, 8))
    net.conv("conv", 8, 3)
    with pytest.raises(NetworkError, match="rename it") as caught:
        profile(net.build(), device, LatencyOptions(), rng=np.random.default_rng(0))
    assert str(caught.value).isprintable()
    device.describe = lambda: DeviceInfo("synthetic", text, "none", 1)  # type: ignore[method-assign]
    good = NetworkBuilder("good", (3, 8, 8))
    good.conv("conv", 8, 3)
    with pytest.raises(DeviceError, match="tell its author") as refusal:
        profile(good.build(), device, LatencyOptions(), rng=np.random.default_rng(0))
    assert str(refusal.value).isprintable()
    assert not device.timed
