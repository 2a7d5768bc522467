"""Work in pieces that processes share and sessions continue: each piece is done once, under a lock of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ablation_rows import Held, locked

from jcw_core.errors import JcwError


def always() -> bool:
    """For a piece that needs nothing."""
    return True


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work.

    Args:
        name: of its lock.
        missing: True while it has to be done.
        run: does it, and puts its row.
        ready: True when what it needs is there.
    """

    name: str
    missing: Callable[[], bool]
    run: Callable[[], object]
    ready: Callable[[], bool] = always


def work(pieces: Callable[[], Iterable[Piece]], locks: Path, minutes: float) -> list[str]:
    """Do pieces until none is left, none can be done, or the time is up, when no piece is begun any more.

    Returns:
        why pieces failed, which are not tried again.
    """
    began, failed = time.monotonic(), dict[str, str]()
    while time.monotonic() - began < 60 * minutes:
        waiting = (p for p in pieces() if p.name not in failed and p.missing() and p.ready())
        if not any(_done(piece, locks, failed) for piece in waiting):
            break
    return list(failed.values())


def _done(piece: Piece, locks: Path, failed: dict[str, str]) -> bool:
    """Do a piece; False where another process is at it."""
    try:
        with locked(locks, piece.name, wait=False):
            # It may have been done since it was looked at.
            if piece.missing():
                print(f"{piece.name} begins", flush=True)
                piece.run()
    except Held:
        return False
    except JcwError as error:
        failed[piece.name] = str(error)
    return True
