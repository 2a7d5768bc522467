"""Ranks that are threads of one process: what they do together is tested without starting any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

from jcw_core.ranks import Ranks

T = TypeVar("T")


class ThreadRanks(Ranks):
    """One of several threads.

    Args:
        rank: its number.
        told: where each puts what it tells the others, by rank.
        barrier: of all of them; one that failed breaks it.
    """

    def __init__(self, rank: int, told: list[Any], barrier: Barrier) -> None:
        self.rank, self.size = rank, len(told)
        self._told, self._barrier = told, barrier

    def gather(self, value: T) -> list[T]:
        self._told[self.rank] = value
        self._barrier.wait()
        found = list(self._told)
        self._barrier.wait()
        return found

    def first(self, call: Callable[[], T]) -> T:
        return self.gather(call() if self.is_first else None)[0]  # type: ignore[return-value]

    def wait(self) -> None:
        self.gather(None)


def in_threads(size: int, work: Callable[[Ranks], T]) -> Sequence[T]:
    """What ``work`` returns in each of ``size`` threads, or the first's failure."""
    told, barrier = [None] * size, Barrier(size, timeout=60)

    def one(rank: int) -> T:
        try:
            return work(ThreadRanks(rank, told, barrier))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        return [future.result() for future in [pool.submit(one, rank) for rank in range(size)]]
