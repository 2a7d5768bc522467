"""How long stages take: wall-clock time, added up over interruptions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jcw_core.files import atomic
from jcw_core.run.records.values import is_amount

_SECONDS = "seconds"
"""File in a stage's scratch folder: what its interrupted attempts took."""


@contextmanager
def stopwatch(scratch: Path) -> Iterator[Callable[[], float]]:
    """Time a stage's work, and keep the time where an error or an interrupt ends it.

    What a process did that was killed is not known, and not counted.

    Args:
        scratch: the stage's folder for checkpoints, which is emptied when the stage has other inputs.

    Yields:
        what tells the seconds so far, those of earlier attempts from the same inputs included.
    """
    file, began, before = scratch / _SECONDS, time.monotonic(), spent(scratch)

    def seconds() -> float:
        return round(before + time.monotonic() - began, 3)

    try:
        yield seconds
    except BaseException:
        with suppress(OSError), atomic(file) as temporary:
            temporary.write_text(str(seconds()), encoding="utf-8")
        raise


def spent(scratch: Path) -> float:
    """Seconds that a stage's interrupted attempts took, by its folder for checkpoints; 0 where that is not known."""
    with suppress(OSError, ValueError):
        found = float((scratch / _SECONDS).read_text(encoding="utf-8"))
        return found if is_amount(found) else 0.0
    return 0.0
