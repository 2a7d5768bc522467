"""``ProfileCheckpoint``: what a profile has measured so far, so that an interrupted one continues."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import FormatError
from jcw_core.logs import logger
from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.network.problem import LayerProblem
from jcw_core.protocols import DeviceInfo, Progress
from jcw_latency.profiling import checkpoint_file
from jcw_latency.profiling.checkpoint_file import KINDS, SavedProfile
from jcw_latency.profiling.progress import Notify, ignore
from jcw_latency.profiling.samples import Samples

_log = logger(__name__)

_SAVE_SECONDS = 5.0


class ProfileCheckpoint:
    """Timings of one network on one device. A context manager: what ends it, they are saved.

    The file may hold other profiles, and points that this one does not ask for, such as those of a finer grid.
    They stay in it.

    Args:
        path: the file; None for timings that live no longer than the process.
        device: what is timed on. Times of another device, engine version or number of threads are not used.
        network: whose profile it is. Of other networks, only layers that are the same are used.
        notify: told in one message what the file is used for.
    """

    def __init__(
        self,
        path: Path | None,
        device: DeviceInfo,
        network: Network,
        notify: Notify = ignore,
    ) -> None:
        self._path, self._device = path, device.to_dict()
        self._network = _digest(network.to_json()).hex()
        self._saved = time.monotonic()
        self._own = SavedProfile(self._device, self._network, {kind: {} for kind in KINDS})
        self._others: list[SavedProfile] = []
        if path is not None and path.exists():
            found = f"{path}: {self._read(path)}"
            _log.info("%s", found)
            notify(Progress("profile", "point", 0, 0, found))

    def __enter__(self) -> ProfileCheckpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.save()

    @staticmethod
    def point_keys(problems: Iterable[LayerProblem]) -> list[int]:
        """What stands for each problem in the file."""
        return [_key(asdict(problem)) for problem in problems]

    def network_keys(self, architectures: Iterable[Architecture]) -> list[int]:
        """What stands for each architecture of the network in the file."""
        return [_key([self._network, architecture.to_dict()]) for architecture in architectures]

    def samples(self, kind: str, keys: Sequence[int], rounds: int) -> Samples:
        """What is known so far, the first ``rounds`` of each."""
        found = Samples(len(keys), rounds)
        for place, key in enumerate(keys):
            column = self._known(kind, key)[:rounds]
            # What failed every time is tried again.
            if np.isfinite(column).any():
                found.seconds[: len(column), place] = column
                found.taken[place] = len(column)
        return found

    def keep(self, kind: str, keys: Sequence[int], samples: Samples, which: NDArray[np.intp]) -> None:
        """Take in what was timed of ``which``."""
        for place in which:
            self._own.timings[kind][keys[place]] = samples.seconds[: samples.taken[place], place].copy()

    def save(self) -> None:
        """Write everything."""
        if self._path is not None and any(self._own.timings.values()):
            checkpoint_file.write(self._path, [self._own, *self._others])
            self._saved = time.monotonic()
            _log.debug("wrote %s", self._path)

    def save_if_due(self) -> None:
        """Write everything if that was last done some seconds ago."""
        if time.monotonic() - self._saved > _SAVE_SECONDS:
            self.save()

    def remove(self) -> None:
        """Remove this profile from the file, and the file when it is the only one."""
        if self._path is not None and self._others:
            checkpoint_file.write(self._path, self._others)
        elif self._path is not None:
            self._path.unlink(missing_ok=True)

    def _known(self, kind: str, key: int) -> NDArray[np.float64]:
        same = (p.timings[kind] for p in (self._own, *self._others) if p.device == self._device)
        return next((timings[key] for timings in same if key in timings), np.empty(0))

    def _read(self, path: Path) -> str:
        """Read the file, and say in a few words what is used."""
        try:
            profiles = checkpoint_file.read(path)
        except FormatError as error:
            return str(error).removeprefix(f"{path}: ")
        for profile in profiles:
            if (profile.device, profile.network) == (self._device, self._network):
                self._own = profile
            else:
                self._others.append(profile)
        points, networks = (len(self._own.timings[kind]) for kind in ("point", "network"))
        if points or networks:
            return f"goes on from {points} points and {networks} network runs of an earlier profile"
        if any(profile.device == self._device for profile in self._others):
            return "an unfinished profile of another network, which stays; layers that are the same are not timed again"
        return (
            "an unfinished profile on another device, or with another engine version or number of threads, "
            "which stays and is not used"
        )


def _digest(document: object) -> bytes:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).digest()


def _key(document: object) -> int:
    """A number that stands for a JSON document."""
    return int.from_bytes(_digest(document)[:8], "little")
