"""How far a run has come, in a file of its folder that is there while it works, for those who watch it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from jcw_core.errors import FormatError
from jcw_core.files import read_json, write_json
from jcw_core.hookspecs import hookimpl
from jcw_core.names import is_text
from jcw_core.protocols import Progress
from jcw_core.registry import Registry
from jcw_core.run.pipeline import StageEvent
from jcw_core.run.records.values import is_amount, is_count
from jcw_core.run.time_left import TimeLeft

STANDING = ".progress.json"
"""Name of the file; it ends with the run, and what a killed run leaves says when it was last written."""
_LATELY = 12
"""Reports that are kept."""
_SECONDS_BETWEEN_FILES = 0.5
"""A report that comes earlier after another of its kind waits for the next."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run is.

    Args:
        stage: that works.
        place: how many stages come before it in this run.
        stages: how many there are.
        finished: those that ended in this run, or were found finished.
        began: when the stage did, seconds since 1970.
        told: when this was written, likewise.
        unit, done, total: as in ``jcw_core.protocols.Progress``; a total of 0 where nothing was reported yet.
        lately: what the last reports of the stage said.
        left: how long all that is left of the run takes, in words; ``""`` while that is not known.
    """

    FORMAT: ClassVar[str] = "jcw-progress/1"

    stage: str
    place: int
    stages: int
    finished: tuple[str, ...]
    began: float
    told: float
    unit: str = ""
    done: int = 0
    total: int = 0
    lately: tuple[str, ...] = ()
    left: str = ""

    def write(self, root: Path) -> None:
        """Write it into the run's folder."""
        write_json(root / STANDING, {"format": self.FORMAT, **asdict(self)})

    @classmethod
    def read(cls, root: Path) -> Standing | None:
        """What a run's folder says; None where nothing works there.

        Raises:
            FormatError: the file is damaged.
        """
        path = root / STANDING
        if not path.is_file():
            return None
        document = read_json(path, kind=cls.FORMAT)
        wrong = [key for key, fits in _KEYS.items() if key not in document or not fits(document[key])]
        if wrong:
            raise FormatError(
                f"{path}: {wrong[0]} is {document.get(wrong[0])!r:.60}; it is written anew by a run"
            )
        found = {key: document[key] for key in _KEYS}
        return cls(**{**found, **{key: tuple(found[key]) for key in ("finished", "lately")}})


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


_KEYS: dict[str, Callable[[Any], bool]] = {
    "stage": is_text,
    **dict.fromkeys(("place", "stages", "done", "total"), is_count),
    **dict.fromkeys(("finished", "lately"), _are_texts),
    **dict.fromkeys(("began", "told"), lambda value: value is not None and is_amount(value)),
    **dict.fromkeys(("unit", "left"), lambda value: isinstance(value, str)),
}
"""What each key must be."""


class Telling:
    """Listens to stages and to ``jcw_progress``, and keeps the file; that it cannot be written ends no run."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._now: Standing | None = None
        self._finished: list[str] = []
        self._left = TimeLeft(time.time())
        self._lock = Lock()

    def stage(self, event: StageEvent) -> None:
        """A stage begins, ends or was finished before."""
        with self._lock:
            if event.state in ("skipped", "ended"):
                self._finished.append(event.stage)
                if event.index + 1 == event.total:  # while the run is still locked
                    self._remove()
            elif event.state == "started":
                now = time.time()
                done = tuple(self._finished)
                self._left.stage(event, now)
                self._now = Standing(
                    event.stage, event.index, event.total, done, now, now, left=self._told(now)
                )
                self._write()

    @hookimpl
    def jcw_progress(self, event: Progress) -> None:
        """A report of the stage that works; reports come from several threads."""
        with self._lock:
            before, now = self._now, time.time()
            if before is None or event.stage != before.stage:
                return
            lately = (*before.lately, event.detail)[-_LATELY:] if event.detail else before.lately
            told = replace(before, lately=lately)
            if event.total:
                self._left.report(event, now)
                told = replace(told, unit=event.unit, done=event.done, total=event.total)
            is_due = now - before.told >= _SECONDS_BETWEEN_FILES or event.done >= event.total
            self._now = replace(told, told=now, left=self._told(now)) if is_due else told
            if is_due:
                self._write()

    def _told(self, now: float) -> str:
        left = self._left.left(now)
        return "" if left is None else str(left)

    def _write(self) -> None:
        assert self._now is not None
        with suppress(OSError):
            self._now.write(self._root)

    def end(self) -> None:
        """Nothing works any more."""
        with self._lock:
            self._remove()

    def _remove(self) -> None:
        """Remove the file, unless another process has taken the run over and written its own."""
        before, self._now = self._now, None
        with suppress(OSError, FormatError):
            found = Standing.read(self._root)
            if before and found and (found.stage, found.began) == (before.stage, before.began):
                (self._root / STANDING).unlink()


@contextmanager
def telling(root: Path, registry: Registry) -> Iterator[Callable[[StageEvent], None]]:
    """Keep the file for as long as a run works.

    Args:
        root: the run's folder.
        registry: whose listeners are told of progress; it is that of one run.

    Yields:
        what is to be called when a stage begins, ends or is skipped.
    """
    told = Telling(root)
    registry.add("standing", told)
    try:
        yield told.stage
    finally:
        told.end()
