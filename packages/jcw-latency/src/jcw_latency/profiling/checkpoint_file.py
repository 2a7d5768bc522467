"""The file of profile checkpoints: timings of profiles that are not finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jcw_latency.table import npz

FORMAT = "jcw-partial/1"
KINDS = ("point", "network", "reference")
"""What is timed: points of grids, whole networks, and the network itself beside each of those."""

Timings = dict[int, NDArray[np.float64]]
"""Seconds by what was timed, (rounds,) each, in the order of the rounds; NaN for a round that failed."""


@dataclass(frozen=True, slots=True)
class SavedProfile:
    """What was timed of one network on one device.

    Args:
        device: as ``DeviceInfo.to_dict`` has it.
        network: digest of the network.
        timings: by kind.
    """

    device: Mapping[str, Any]
    network: str
    timings: Mapping[str, Timings]


def write(path: Path, profiles: Sequence[SavedProfile]) -> None:
    """Write profiles atomically."""
    documents: list[dict[str, Any]] = []
    arrays: dict[str, NDArray[Any]] = {}
    for index, profile in enumerate(profiles):
        sizes = {}
        for kind, timings in profile.timings.items():
            taken = np.array([len(column) for column in timings.values()], dtype=np.int32)
            seconds = np.full((len(taken), int(taken.max(initial=0))), np.nan)
            seconds[np.arange(seconds.shape[1]) < taken[:, None]] = np.concatenate([[], *timings.values()])
            prefix, sizes[kind] = f"{index:04d}.{kind}", seconds.shape
            arrays[f"{prefix}.keys"] = np.array(list(timings), dtype=np.uint64)
            arrays[f"{prefix}.taken"], arrays[f"{prefix}.seconds"] = taken, seconds
        documents.append({"device": profile.device, "network": profile.network, "sizes": sizes})
    npz.write(path, {"format": FORMAT, "profiles": documents}, arrays)


def read(path: Path) -> list[SavedProfile]:
    """Read what ``write`` wrote.

    Raises:
        FormatError: the file is damaged, or holds timings that cannot be.
    """
    with npz.Reader(path, FORMAT, "it is not used") as reader:
        try:
            return [_profile(reader, i, document) for i, document in enumerate(reader.metadata["profiles"])]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise reader.error(f"its metadata is damaged ({error!r})") from None


def _profile(reader: npz.Reader, index: int, document: Mapping[str, Any]) -> SavedProfile:
    timings = {kind: _timings(reader, f"{index:04d}.{kind}", document["sizes"][kind]) for kind in KINDS}
    return SavedProfile(dict(document["device"]), str(document["network"]), timings)


def _timings(reader: npz.Reader, prefix: str, size: Sequence[int]) -> Timings:
    count, rounds = size
    keys = reader.array(f"{prefix}.keys", (count,), "uint64")
    taken = reader.array(f"{prefix}.taken", (count,), "int32")
    seconds = reader.array(f"{prefix}.seconds", (count, rounds), "float64")
    possible = np.isnan(seconds) | (np.isfinite(seconds) & (seconds > 0))
    if not possible.all() or (taken < 0).any() or (taken > rounds).any():
        raise reader.error(f"{prefix} holds timings that cannot be")
    return {int(key): row[:end] for key, row, end in zip(keys, seconds, taken, strict=True)}
