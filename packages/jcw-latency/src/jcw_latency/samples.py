"""Timings as they come in: kept on disk, and judged for whether there are enough of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import FormatError
from jcw_core.problem import LayerProblem
from jcw_core.protocols import DeviceInfo
from jcw_latency import npz
from jcw_latency.table import device_document

FORMAT = "jcw-samples/1"


class Samples:
    """Seconds by round and problem; NaN where there is none.

    Args:
        problems: what is timed.
        device: what it is timed on.
        rounds: most rounds that a problem may get.
    """

    def __init__(self, problems: Sequence[LayerProblem], device: DeviceInfo, rounds: int) -> None:
        self.seconds = np.full((rounds, len(problems)), np.nan)
        self.taken = np.zeros(len(problems), dtype=np.int32)
        """Rounds that each problem has had, those that failed included."""
        self._keys = np.array([_key(asdict(problem)) for problem in problems], dtype=np.uint64)
        self._device = str(_key(device_document(device)))

    def add(self, which: NDArray[np.intp], seconds: NDArray[np.float64]) -> None:
        """Take in the rounds (rounds, len(which)) of some problems; the first that still fit."""
        for row in seconds:
            free = self.taken[which] < len(self.seconds)
            self.seconds[self.taken[which[free]], which[free]] = row[free]
            self.taken[which[free]] += 1

    @property
    def counts(self) -> NDArray[np.int32]:
        """Timings of each problem that did not fail."""
        found: NDArray[np.int32] = np.isfinite(self.seconds).sum(axis=0, dtype=np.int32)
        return found

    def quantiles(self) -> NDArray[np.float64]:
        """Lower quartile, median and upper quartile of each problem, (3, n) seconds; NaN without timings."""
        # By hand: numpy's nanquantile takes one column after the other.
        rising, counts = np.sort(self.seconds, axis=0), self.counts
        places = np.array([[0.25], [0.5], [0.75]]) * np.maximum(counts - 1, 0)
        below = places.astype(np.intp)
        low, high = (np.take_along_axis(rising, i, axis=0) for i in (below, below + (places > below)))
        found: NDArray[np.float64] = low + (places - below) * (high - low)
        return found

    def uncertainty(self) -> NDArray[np.float64]:
        """Half the width of the 95 % confidence interval of each median, seconds.

        1.57 interquartile ranges over the root of the count (McGill, Tukey and Larsen 1978).
        """
        low, _, high = self.quantiles()
        half: NDArray[np.float64] = 1.57 * (high - low) / np.sqrt(np.maximum(self.counts, 1))
        return half

    def save(self, path: Path) -> None:
        """Write all timings atomically."""
        rounds, problems = self.seconds.shape
        metadata = {"format": FORMAT, "device": self._device, "rounds": rounds, "problems": problems}
        npz.write(path, metadata, {"seconds": self.seconds, "taken": self.taken, "keys": self._keys})

    def load(self, path: Path) -> int:
        """Take over what ``path`` holds of these problems on this device.

        Returns:
            how many problems were found; 0 when the file is absent, damaged or of another device.
        """
        try:
            with npz.Reader(path, FORMAT, "it is made again") as reader:
                rounds, problems = reader.metadata.get("rounds"), reader.metadata.get("problems")
                if reader.metadata.get("device") != self._device or not isinstance(problems, int):
                    return 0
                if rounds != len(self.seconds):
                    return 0
                seconds = reader.array("seconds", (rounds, problems), "float64")
                taken = reader.array("taken", (problems,), "int32")
                keys = reader.array("keys", (problems,), "uint64")
        except FormatError:
            return 0
        return self._take_over(keys, seconds, np.clip(taken, 0, rounds).astype(np.int32))

    def carry(self, earlier: Samples) -> None:
        """Take over the timings of the problems that ``earlier`` has in common."""
        self._take_over(earlier._keys, earlier.seconds, earlier.taken)

    def _take_over(
        self, keys: NDArray[np.uint64], seconds: NDArray[np.float64], taken: NDArray[np.int32]
    ) -> int:
        places = {int(key): place for place, key in enumerate(keys)}
        pairs = [(own, places[int(key)]) for own, key in enumerate(self._keys) if int(key) in places]
        if pairs:
            own, other = (np.array(column) for column in zip(*pairs, strict=True))
            self.seconds[:, own], self.taken[own] = seconds[:, other], taken[other]
        return len(pairs)


def _key(document: object) -> int:
    """A number that stands for a JSON document."""
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).digest()
    return int.from_bytes(digest[:8], "little")
