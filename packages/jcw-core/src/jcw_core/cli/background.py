"""Calls in a thread that can be abandoned, and how the process ends while one is in progress."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

_NAME = "jcw-background"
_native = threading.Event()
"""Set where there are threads that the interpreter does not know of."""


def start(call: Callable[[], None]) -> threading.Thread:
    """Call in a thread that can be left behind."""
    thread = threading.Thread(target=call, name=_NAME, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        # Interrupted once more while it takes back a lock after waiting, which it then releases without having it.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
    return thread


def expect_native_threads() -> None:
    """Say that there are threads which may come back to the interpreter at any time."""
    _native.set()


def leave(status: int) -> NoReturn:
    """End the process with ``status``, without the interpreter's own end if a call is still in progress.

    Native code that comes back to an interpreter which has ended takes the process down.
    """
    if _native.is_set() or any(thread.name == _NAME for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(status)
    # An interrupt of code that is a string (the methods of a dataclass) makes `python -m` end by that signal,
    # caught or not and whatever the status, unless other such code comes after it.
    eval("None")
    sys.exit(status)
