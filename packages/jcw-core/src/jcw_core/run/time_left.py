"""How long all that is left of a run takes: by what was expected of its stages, and by what the present one has done."""

from __future__ import annotations

from dataclasses import dataclass

from jcw_core.protocols import Progress
from jcw_core.run.ahead import Ahead
from jcw_core.run.pipeline import StageEvent
from jcw_core.run.remaining import RemainingTime
from jcw_core.shown import roughly


@dataclass(frozen=True, slots=True)
class Left:
    """Seconds, and whether they are of all that is left, or of what is known of it."""

    seconds: float
    is_whole: bool

    def __str__(self) -> str:
        return f"{'about' if self.is_whole else 'at least'} {roughly(self.seconds)} left in all"


class TimeLeft:
    """Told of stages and their reports, by any clock.

    Args:
        now: seconds of that clock.
    """

    def __init__(self, now: float) -> None:
        self._begin(now, None)

    def stage(self, event: StageEvent, now: float) -> None:
        """A stage begins; other events change nothing."""
        if event.state == "started":
            self._begin(now, event.ahead)

    def _begin(self, now: float, expected: Ahead | None) -> None:
        self._began = self._reported = now
        self._ahead = expected
        self._keys: set[tuple[str, str, int]] = set()
        self._key, self._is_done = ("", "", 0), False
        self.unit = RemainingTime(now)
        """Of what the present stage counts now."""

    def report(self, event: Progress, now: float) -> None:
        """Of the present stage, with a total."""
        key = (event.stage, event.unit, event.total)
        if key != self._key:
            # Its first unit began when the last report of another kind came, or the stage itself.
            self.unit = RemainingTime(self._reported)
            self._key = key
            self._keys.add(key)
        self._reported, self._is_done = now, event.done >= event.total
        self.unit.update(now, event.done, event.total)

    def left(self, now: float) -> Left | None:
        """Of the whole run; None while nothing is known."""
        if self._ahead is None:
            return None
        own, is_whole = self._own(self._ahead, now)
        seconds = own + self._ahead.later
        return Left(seconds, is_whole and self._ahead.is_whole) if seconds > 0 else None

    def _own(self, ahead: Ahead, now: float) -> tuple[float, bool]:
        """Seconds of the present stage, and whether they are of all of it."""
        counted = self.unit.seconds(now)
        if ahead.counts_all and len(self._keys) == 1:
            if self._is_done:
                return 0.0, True
            if counted is not None:
                return counted, True
        expected = None if ahead.own is None else ahead.own - (now - self._began)
        if (
            expected is None or expected <= 0
        ):  # of a stage that takes longer than was thought nobody knows how long
            return counted or 0.0, False
        return max(counted or 0.0, expected) if ahead.counts_all else expected, True
