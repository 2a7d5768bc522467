"""Trainings side by side, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

import torch

from jcw_core.training.precision import threads

Job = TypeVar("Job")
Result = TypeVar("Result")


def side_by_side(
    train: Callable[[Job], Result], jobs: Sequence[Job], count: int, stop: Event, most: int | None = None
) -> list[Result]:
    """Train in ``count`` threads: one for each job, where there are more jobs than threads.

    That scales better than several threads in one small network. A failure and Ctrl-C set ``stop``,
    at which the other trainings end with their next step.

    Args:
        train: what trains a job.
        jobs: one model each.
        count: threads of torch in all.
        stop: read by ``train``.
        most: trainings at a time, as many as threads by default.

    Returns:
        what ``train`` returns, in the order of ``jobs``.

    Raises:
        BaseException: the first failure.
    """
    lanes = min(most or count, count, len(jobs))
    with threads(count // lanes):
        pool = ThreadPoolExecutor(lanes, initializer=torch.set_num_threads, initargs=(count // lanes,))
        try:
            futures = [pool.submit(train, job) for job in jobs]
            ended = wait(futures, return_when=FIRST_EXCEPTION).done
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    # What ended later was stopped, which is not the failure to tell of.
    return [future.result() for future in futures if future in ended]
