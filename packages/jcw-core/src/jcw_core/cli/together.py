"""Several processes of one command: of what ends them, one says what it was."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import NoReturn

import click

from jcw_core.cli.background import expect_native_threads
from jcw_core.ranks import RankError, Ranks
from jcw_core.registry import Registry


@contextmanager
def joined(registry: Registry) -> Iterator[Ranks]:
    """The processes that were started to work on a run together, for as long as the block takes.

    Raises:
        RankError: they cannot be reached.
        click.exceptions.Exit: the block failed, and another process has said why.
    """
    ranks = registry.join_ranks()
    if ranks.size > 1:
        expect_native_threads()
    try:
        with _told_to_end() if ranks.size > 1 else nullcontext():
            yield ranks
    except (Exception, KeyboardInterrupt) as error:
        if ranks.speaks():
            raise
        raise click.exceptions.Exit(130 if isinstance(error, KeyboardInterrupt) else 2) from None
    finally:
        ranks.leave()


@contextmanager
def _told_to_end() -> Iterator[None]:
    """Have the signal by which ``torchrun`` ends the others, where one has ended, be an error that is said."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise RankError("this process was told to end, as is done where another process of its run has ended")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
