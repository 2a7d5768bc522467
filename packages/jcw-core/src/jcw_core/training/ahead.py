"""``ahead``: what a loop will want next is made while it works on what it has."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import torch

T = TypeVar("T")
Made = TypeVar("Made")


def ahead(function: Callable[[T], Made], items: Iterable[T], workers: int) -> Iterator[Made]:
    """``function`` of each of ``items``, in order, made by threads before it is asked for.

    Args:
        function: called by several threads at once; torch computes each call in one thread.
        items: taken one by one.
        workers: threads, each of which makes one and has at most one more waiting; 0 for none, where each is made when
            it is asked for.

    Raises:
        Exception: what ``function`` raised, when its turn comes.
    """
    if not workers:
        yield from map(function, items)
        return
    waiting: deque[Future[Made]] = deque()
    left = iter(items)
    # Threads, not processes: decoding and arithmetic on arrays let others run meanwhile.
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        waiting.extend(pool.submit(function, item) for item in islice(left, 2 * workers))
        while waiting:
            made = waiting.popleft().result()
            waiting.extend(pool.submit(function, item) for item in islice(left, 1))
            yield made
    finally:
        pool.shutdown(cancel_futures=True)
