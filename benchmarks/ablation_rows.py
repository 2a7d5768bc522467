"""Rows of a results file that several processes and sessions add to, one at a time."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import Row

from jcw_core.files import write_json

KEY = ("kind", "network", "variant", "selection", "schedule", "seed")
"""What tells rows apart; each has all six, and ``inputs``, the hash of the settings under which it was measured."""


class Rows:
    """A results file.

    Args:
        path: of the JSON file.
        work: folder for locks.
        head: what stands beside the rows, as of the last who wrote.
        inputs: by network, the hash that rows must bear.
    """

    def __init__(self, path: Path, work: Path, head: Mapping[str, Any], inputs: Mapping[str, str]) -> None:
        self._path, self._work, self._head, self._inputs = path, work, dict(head), inputs

    def read(self) -> list[Row]:
        """Rows that still hold: those of these networks under other settings count as absent."""
        if not self._path.is_file():
            return []
        rows: list[Row] = json.loads(self._path.read_text(encoding="utf-8"))["rows"]
        return [row for row in rows if row["inputs"] == self._inputs.get(row["network"], row["inputs"])]

    def find(self, **key: object) -> Row | None:
        """The row with this key; what ``key`` leaves out is ``""``, or 0 for the seed."""
        wanted = _whole(key)
        return next((row for row in self.read() if _key(row) == _key(wanted)), None)

    def put(self, row: Row) -> None:
        """Add a row, or replace the one with its key; what no longer holds goes. The file is whole at any time."""
        row = _whole(row) | {"inputs": self._inputs[row["network"]]}
        with locked(self._work, "rows"):
            kept = [other for other in self.read() if _key(other) != _key(row)]
            rows = sorted([*kept, row], key=lambda row: [str(row[name]) for name in KEY])
            write_json(self._path, {**self._head, "rows": rows})


class Held(Exception):  # noqa: N818  not a failure
    """Another process has the lock."""


@contextmanager
def locked(folder: Path, name: str, wait: bool = True) -> Iterator[None]:
    """Hold a lock that ends with its process.

    Raises:
        Held: another process has it, and ``wait`` is False.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise Held(name) from None
        yield


def _whole(key: Mapping[str, Any]) -> Row:
    return {"kind": "", "network": "", "variant": "", "selection": "", "schedule": "", "seed": 0} | dict(key)


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)
