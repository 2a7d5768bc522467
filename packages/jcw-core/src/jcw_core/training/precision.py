"""Precision and threads of torch for a block of code, then as they were."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

import torch

from jcw_core.training.memory import freed_memory_kept
from jcw_core.training.options import Arithmetic

T = TypeVar("T")
Found = TypeVar("Found")


def computing(arithmetic: Arithmetic) -> AbstractContextManager[None]:
    """Convolutions in the precision asked for."""
    # Casts are not cached: masked weights are new tensors at every step, and the cache is not thread-safe.
    bf16 = arithmetic.precision == "bf16" or (arithmetic.precision == "auto" and has_bf16())
    kind = torch.device(arithmetic.device).type
    return torch.autocast(kind, torch.bfloat16, enabled=bf16, cache_enabled=False)


@cache
def has_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """True when the processor multiplies bfloat16 in hardware; False where that cannot be found out."""
    try:
        flags = set(cpuinfo.read_text(encoding="utf-8").split())
    except OSError:
        return False
    return bool(flags & {"avx512_bf16", "amx_bf16"})


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use ``count`` threads within the block, and what it frees again."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with freed_memory_kept():
            yield
    finally:
        torch.set_num_threads(before)


def map_in_threads(function: Callable[[T], Found], items: Collection[T], count: int) -> list[Found]:
    """``function`` of each of ``items``, up to ``count`` at a time, each of which torch computes in one thread.

    Several threads in one network wait for each other; networks beside each other do not.
    """
    count = max(1, min(count, len(items)))
    with threads(1):
        if count == 1:  # where memory that is freed is kept best
            return [function(item) for item in items]
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(function, items))
