"""Where the process of ``jcw`` begins: before anything slow is imported, an interrupt has its one line."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn


def main() -> None:
    """Run the command.

    While modules and plugins are imported an interrupt ends the process at once: an exception in the
    middle of an import may come out as another, or not at all, and there is nothing to put away yet.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    try:
        from jcw_core.cli.main import main as run

        run()
    except KeyboardInterrupt:
        _end()


def raise_interrupts() -> None:
    """From now on an interrupt is a ``KeyboardInterrupt``, so that what works has time to put its things away."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int = signal.SIGINT, frame: FrameType | None = None) -> NoReturn:
    os.write(2, b"jcw: interrupted\n")
    os._exit(128 + number)
