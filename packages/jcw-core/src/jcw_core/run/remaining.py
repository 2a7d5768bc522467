"""How long a stage still takes, from what it has done since it began."""

from __future__ import annotations

_SETTLED = 5
"""Reports after which lanes that began together, and so end together, no longer make the rate."""
_JUMP = 4
"""A step as long as so many usual ones was not all done in this run."""


class RemainingTime:
    """An estimate for one kind of unit, by the rate since its first one began.

    Reports come from all lanes that work side by side, in any rhythm: two at a time tell nothing of
    the time between them, so the rate is that of the whole time. A lane that goes on from its
    checkpoint jumps ahead by what an earlier run did: that counts as a usual step.

    Args:
        began: when the first unit did, in seconds of any clock.
    """

    def __init__(self, began: float) -> None:
        self._began = self._last = began
        self._done = 0
        self._steps: list[int] = []
        self._left: float | None = None

    def update(self, now: float, done: int, total: int) -> None:
        """A report: so many of ``total`` are done, those of an earlier run included."""
        self._last = now
        if done <= 0:
            self._began = now
            return
        if done > self._done:
            self._steps.append(done - self._done)
        self._done = done
        usual = sorted(self._steps)[len(self._steps) // 4] if self._steps else 0
        worked = sum(step if step < _JUMP * usual else usual for step in self._steps)
        known = worked > 0 and len(self._steps) >= min(_SETTLED, max(1, total // 10)) and done < total
        self._left = (total - done) * (now - self._began) / worked if known else None

    def seconds(self, now: float) -> float | None:
        """Seconds left; None while there is nothing to tell it by."""
        return None if self._left is None else max(0.0, self._left - (now - self._last))
