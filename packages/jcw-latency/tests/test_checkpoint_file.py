"""The file of profile checkpoints: read back as written, and refused where it is damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from jcw_core.errors import FormatError
from jcw_latency.profiling import checkpoint_file
from jcw_latency.profiling.checkpoint_file import FORMAT, KINDS, SavedProfile
from jcw_latency.table import npz

Arrays = dict[str, NDArray[Any]]


def unfinished(name: str, seed: int) -> SavedProfile:
    rng = np.random.default_rng(seed)
    timings = {
        kind: {int(key): rng.uniform(1, 2, key % 5) for key in rng.integers(2**63, size=9)} for kind in KINDS
    }
    timings["point"] |= {2**64 - 1: np.array([np.nan, 1.0, np.nan])}
    return SavedProfile({"name": name, "threads": 1}, name * 9, timings)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    checkpoint_file.write(tmp_path / "partial", [unfinished("a", 0), unfinished("b", 1)])
    return tmp_path / "partial"


def test_checkpoint_is_read_back(path: Path) -> None:
    found = checkpoint_file.read(path)
    assert len(found) == 2
    for one, other in zip(found, (unfinished("a", 0), unfinished("b", 1)), strict=True):
        assert (one.device, one.network) == (other.device, other.network)
        for kind in KINDS:
            assert list(one.timings[kind]) == list(other.timings[kind])
            for column, same in zip(one.timings[kind].values(), other.timings[kind].values(), strict=True):
                np.testing.assert_array_equal(column, same)


def test_checkpoint_without_timings(tmp_path: Path) -> None:
    checkpoint_file.write(tmp_path / "partial", [SavedProfile({}, "", {kind: {} for kind in KINDS})])
    (found,) = checkpoint_file.read(tmp_path / "partial")
    assert found.timings == {kind: {} for kind in KINDS}


def _infinite(profile: Any, arrays: Arrays) -> None:
    arrays["0001.network.seconds"][0, 0] = np.inf


def _below_zero(profile: Any, arrays: Arrays) -> None:
    arrays["0001.point.seconds"][-1, 0] = -1.0


def _too_many(profile: Any, arrays: Arrays) -> None:
    arrays["0001.point.taken"][3] = 99


def _fewer_than_none(profile: Any, arrays: Arrays) -> None:
    arrays["0001.reference.taken"][3] = -1


def _missing(profile: Any, arrays: Arrays) -> None:
    del arrays["0001.reference.keys"]


def _of_another_size(profile: Any, arrays: Arrays) -> None:
    arrays["0001.point.keys"] = arrays["0001.point.keys"][1:]


def _without_sizes(profile: Any, arrays: Arrays) -> None:
    del profile["sizes"]["network"]


def _not_sizes(profile: Any, arrays: Arrays) -> None:
    profile["sizes"]["network"] = [-1, "9"]


def _not_a_pair(profile: Any, arrays: Arrays) -> None:
    profile["sizes"]["network"] = 9


def _not_a_device(profile: Any, arrays: Arrays) -> None:
    profile["device"] = "host"


@pytest.mark.parametrize(
    "damage",
    [
        _infinite, _below_zero, _too_many, _fewer_than_none, _missing, _of_another_size, _without_sizes, _not_sizes,
        _not_a_pair, _not_a_device,
    ],
)  # fmt: skip
def test_damaged_checkpoint_is_refused(path: Path, damage: Callable[[Any, Arrays], None]) -> None:
    metadata, arrays = contents(path)
    damage(metadata["profiles"][1], arrays)
    npz.write(path, metadata, arrays)
    with pytest.raises(FormatError, match=r"partial: .*; it is not used$"):
        checkpoint_file.read(path)


@pytest.mark.parametrize("profiles", [None, 3, "ab", [3], {"a": 1}])
def test_checkpoint_metadata_of_another_shape_is_refused(path: Path, profiles: object) -> None:
    metadata, arrays = contents(path)
    npz.write(path, {**metadata, "profiles": profiles}, arrays)
    with pytest.raises(FormatError, match="its metadata is damaged"):
        checkpoint_file.read(path)


def contents(path: Path) -> tuple[dict[str, Any], Arrays]:
    with npz.Reader(path, FORMAT, "") as reader:
        arrays = {
            f"{index:04d}.{kind}.{name}": reader.array(f"{index:04d}.{kind}.{name}", shape, dtype).copy()
            for index, profile in enumerate(reader.metadata["profiles"])
            for kind in KINDS
            for name, shape, dtype in _members(profile["sizes"][kind])
        }
        return reader.metadata, arrays


def _members(size: Sequence[int]) -> list[tuple[str, tuple[int, ...], str]]:
    count, rounds = size
    return [
        ("keys", (count,), "uint64"),
        ("taken", (count,), "int32"),
        ("seconds", (count, rounds), "float64"),
    ]
