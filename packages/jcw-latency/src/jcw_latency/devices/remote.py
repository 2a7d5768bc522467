"""``RemoteDevice``: runs ``jcw-device`` on another machine, over any transport.

The program is copied once, under a name that holds its hash. It answers in lines of JSON, one per
round, so a line that breaks off costs what came after it and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import operator
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DeviceError
from jcw_core.network.problem import LayerProblem
from jcw_core.protocols import DeviceInfo, Precision


class Transport(Protocol):
    """A way to another machine. Errors are ``DeviceError`` and name it."""

    name: str
    """What people call the machine."""

    def run(self, command: str) -> str:
        """Run a shell command there and return what it printed."""

    def push(self, source: Path, target: str) -> None:
        """Copy a file; ``target`` is relative to where commands run, and appears whole or not at all."""

    def close(self) -> None:
        """End the call that another thread is in, which then raises ``DeviceError``, and refuse more."""


class RemoteOptions(Protocol):
    """What the options of every way to another machine have in common."""

    @property
    def program(self) -> Path:
        """``jcw-device``, built for that machine."""

    @property
    def folder(self) -> str:
        """Where it and files to be timed go."""

    @property
    def core(self) -> int:
        """To run on, -1 for any."""

    @property
    def launcher(self) -> str:
        """Command there that runs the program, e.g. an emulator; ``""`` for none."""

    @property
    def threads(self) -> int:
        """Of the engine."""

    @property
    def isa(self) -> str:
        """Of the engine; ``""`` is the best that it finds."""

    @property
    def precision(self) -> Precision:
        """That layers are timed in."""


class RemoteDevice:
    """See ``jcw_core.protocols.Device``.

    Args:
        kind: the device's plugin name.
        transport: the way there.
        options: what runs there, and how.

    Raises:
        DeviceError: the machine cannot be reached or cannot run the program.
    """

    model_format = "jcw"

    def __init__(self, kind: str, transport: Transport, options: RemoteOptions) -> None:
        self._transport, self._folder = transport, options.folder
        core, isa, threads = options.core, options.isa, options.threads
        installed = self._install(options.program)
        self.precision: Precision = options.precision
        flags = f"--threads {threads}" + (f" --isa {shlex.quote(isa)}" if isa else "")
        flags += f" --precision {self.precision}" if self.precision != "float32" else ""
        # The mask, without 0x, is all that every taskset (util-linux, busybox, Android's toybox) reads.
        pinned = f"taskset {1 << core:x}" if core >= 0 else ""
        self._command = " ".join(filter(None, [pinned, options.launcher, shlex.quote(installed)]))
        self._flags = flags
        run = f"chmod 755 {shlex.quote(installed)} && {self._command} describe {flags}"
        found = self._object(self._transport.run(run))
        try:
            versions = {"jcw-kernels": str(found["version"])}
            if self.precision != "float32":
                versions["precision"] = self.precision
            self._info = DeviceInfo(kind, str(found["cpu"]), isa or str(found["isa"]), threads, versions)
        except KeyError as error:
            raise DeviceError(
                f"{transport.name}: jcw-device does not say its {error}; build it again"
            ) from None

    def describe(self) -> DeviceInfo:
        """Processor, instruction set and version, as the machine says."""
        return self._info

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        """Time layers there, (rounds, len(problems)) seconds."""
        with tempfile.TemporaryDirectory(prefix="jcw-remote-") as local:
            lines = Path(local) / "layers.jsonl"
            lines.write_text("".join(json.dumps(asdict(p)) + "\n" for p in problems), encoding="utf-8")
            return self._timed("layers", [lines], rounds, len(problems))

    def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
        """Time whole models there, (rounds, len(paths)) seconds."""
        return self._timed("run", paths, rounds, len(paths))

    def close(self) -> None:
        """Give up on the machine: a call in progress ends with ``DeviceError``, and so do later ones."""
        self._transport.close()

    def _install(self, program: Path) -> str:
        """Copy the program unless a file of its hash is there; its path there."""
        try:
            digest = hashlib.sha256(program.read_bytes()).hexdigest()
        except OSError as error:
            raise DeviceError(
                f"{program}: {error.strerror}; give the jcw-device that was built for it"
            ) from None
        target = f"{self._folder}/jcw-device-{digest[:12]}"
        quoted = shlex.quote(target)
        present = self._transport.run(
            f"mkdir -p {shlex.quote(self._folder)} && (sha256sum {quoted} 2>/dev/null || true)"
        )
        if not present.startswith(digest):
            self._transport.push(program, target)
        # With its folder in front, or the shell would look for it elsewhere.
        return target if target.startswith("/") else f"./{target}"

    def _timed(self, action: str, files: Sequence[Path], rounds: int, count: int) -> NDArray[np.float64]:
        names = [f"{self._folder}/work-{index}{path.suffix}" for index, path in enumerate(files)]
        words = " ".join(map(shlex.quote, names))
        run = f"{self._command} {action} {words} --rounds {rounds} {self._flags}"
        try:
            for path, name in zip(files, names, strict=True):
                self._transport.push(path, name)
            printed = self._transport.run(f"{run}; code=$?; rm -f {words}; exit $code")
        except DeviceError:
            # When the machine is gone, so is the reason to tidy up; the first error is the one that matters.
            with contextlib.suppress(DeviceError):
                self._transport.run(f"rm -f {words}")
            raise
        seconds = np.full((rounds, count), np.nan)
        answered = np.zeros(seconds.shape, dtype=bool)
        for line in filter(None, map(str.strip, printed.splitlines())):
            row = self._object(line)
            if "round" in row:
                where, times = self._round(row, seconds.shape)
                seconds[where] = times
                answered[where] = True
        if not answered.all():
            raise DeviceError(
                f"{self._transport.name}: jcw-device returned {answered.sum()} of {answered.size} times; "
                "look after the machine and run again"
            )
        return seconds

    def _round(self, row: dict[str, Any], shape: tuple[int, int]) -> tuple[tuple[int, slice], list[float]]:
        """Where the times of one line belong, and the times."""
        try:
            index, first = operator.index(row["round"]), operator.index(row["first"])
            times = [_time(found) for found in row["seconds"]]
        except (KeyError, TypeError, OverflowError):
            index, first, times = -1, -1, []
        if not (0 <= index < shape[0] and times and 0 <= first <= shape[1] - len(times)):
            raise DeviceError(
                f"{self._transport.name}: jcw-device printed {str(row)[:80]}, which is not a round"
            )
        return (index, slice(first, first + len(times))), times

    def _object(self, line: str) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise DeviceError(
                f"{self._transport.name}: jcw-device printed {line[:80]!r}, expected a line of JSON"
            )
        return found


def _time(found: Any) -> float:
    """A time as it was printed, which may be null."""
    if found is not None and not isinstance(found, (int, float)):
        raise TypeError(found)
    return np.nan if found is None else float(found)
