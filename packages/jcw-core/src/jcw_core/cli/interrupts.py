"""What an interrupt does: while modules are imported it ends the process, later it is an exception."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn


def end_at_interrupts() -> None:
    """From now on an interrupt ends the process at once, with its one line.

    In the middle of an import an exception may come out as another, or not at all, and there is nothing to put
    away yet.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def raise_interrupts() -> None:
    """From now on an interrupt is a ``KeyboardInterrupt``, so that what works has time to put its things away."""
    if signal.getsignal(signal.SIGINT) is end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end(number: int = signal.SIGINT, frame: FrameType | None = None) -> NoReturn:
    """Say that the process was interrupted, and end it."""
    os.write(2, b"jcw: interrupted\n")
    os._exit(128 + number)
