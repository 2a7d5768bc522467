"""Timings as they come in: kept on disk, and judged for whether there are enough of them."""

from __future__ import annotations

import hashlib
import json
import warnings
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
        content = json.dumps([[asdict(p) for p in problems], device_document(device)])
        self._key = hashlib.sha256(content.encode()).hexdigest()

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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found: NDArray[np.float64] = np.nanquantile(self.seconds, [0.25, 0.5, 0.75], axis=0)
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
        metadata = {"format": FORMAT, "key": self._key, "rounds": len(self.seconds)}
        npz.write(path, metadata, {"seconds": self.seconds, "taken": self.taken})

    def load(self, path: Path) -> bool:
        """Continue from ``path``.

        Returns:
            False, with nothing changed, when the file is absent, damaged or of other problems,
            another device or another number of rounds.
        """
        try:
            with npz.Reader(path, FORMAT, "it is made again") as reader:
                if reader.metadata.get("key") != self._key:
                    return False
                seconds = reader.array("seconds", self.seconds.shape, "float64").copy()
                taken = reader.array("taken", self.taken.shape, "int32").copy()
        except FormatError:
            return False
        self.seconds, self.taken = seconds, np.clip(taken, 0, len(seconds)).astype(np.int32)
        return True
