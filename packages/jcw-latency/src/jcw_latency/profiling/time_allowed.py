"""``TimeAllowed``: how long a profile may take, and what is said of one that ends with what it has by then."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from jcw_core.protocols import Progress
from jcw_core.shown import duration
from jcw_latency.profiling.progress import Notify
from jcw_latency.table.table import LatencyTable

ENDED_AFTER = "ended_after"
"""Among a table's settings: the seconds after which its profile ended although its points called for more."""


@dataclass(frozen=True, slots=True)
class TimeAllowed:
    """The time of one profile, which begins when this is made.

    Args:
        seconds: that it may take; None for as many as it needs.
        spent: of these, by attempts that were interrupted.
        clock: seconds of any origin.
    """

    seconds: float | None = None
    spent: float = 0.0
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "began", self.clock())

    @property
    def left(self) -> float:
        """Seconds; below 0 when they are spent."""
        return inf if self.seconds is None else self.seconds - self.spent - (self.clock() - self.began)

    @property
    def is_over(self) -> bool:
        """True from when the time is spent."""
        return self.left <= 0

    def ended(self, table: LatencyTable, reached: Sequence[str], notify: Notify) -> LatencyTable:
        """Tell the user in a line that a profile ended early, and note it in its table.

        Args:
            table: as it was measured.
            reached: how far each part came that was not done; nothing where all were.
            notify: told the line.
        """
        if self.seconds is None or not reached:
            return table
        words = f"ends after its {duration(self.seconds)} with what it has: {', '.join(reached)}"
        notify(Progress("profile", "point", 0, 0, words))
        return replace(table, settings={**table.settings, ENDED_AFTER: self.seconds})
