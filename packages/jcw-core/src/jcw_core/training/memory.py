"""Memory that a step of training frees is kept for the next one.

glibc gives large arrays back to the system as soon as they are freed, and the system clears the pages of new ones:
each step pays for all its activations anew, which takes up to half of its time on a CPU.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

# From malloc.h, with glibc's own values.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_KEEPING = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: -1}
_USUAL = {_M_MMAP_MAX: 65536, _M_TRIM_THRESHOLD: 128 * 1024}
_SETTINGS = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
"""Variables by which users set the same; what they set stays."""

_lock = Lock()
_blocks = 0
"""How many are open, in all threads."""


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep what is freed within the block for what is allocated next; does nothing where malloc is not glibc's.

    Arrays of 64 MiB and more of other threads than the first are given back all the same.
    """
    global _blocks
    with _lock:
        _blocks += 1
        if _blocks == 1:
            _set(_KEEPING)
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if _blocks == 0:
                _set(_USUAL)


def _set(values: dict[int, int]) -> None:
    libc = _glibc()
    if libc is None or any(name in os.environ for name in _SETTINGS):
        return
    for parameter, value in values.items():
        libc.mallopt(parameter, value)
    if values is _USUAL:
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None)
    except (OSError, TypeError):  # Windows
        return None
    return libc if hasattr(libc, "gnu_get_libc_version") and hasattr(libc, "mallopt") else None
