"""Work in pieces that processes share and sessions continue: each piece is done once, under a lock of its own."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablation_rows import Held, locked
from harness import command_line

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


def command_line_of_pieces(description: str | None, networks: Sequence[str], seeds: int) -> ArgumentParser:
    """A parser with what all programs that work in pieces take, by default all networks and so many seeds."""
    parser = command_line(description, quick="tiny networks and trainings, to see that everything works")
    parser.add_argument(
        "--data", type=Path, required=True, help="CIFAR-10: a .zip or folder, split/class/file"
    )
    parser.add_argument("--work", type=Path, required=True, help="folder for checkpoints, which may be lost")
    parser.add_argument("--networks", nargs="+", choices=networks, default=networks)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no piece after so many minutes")
    return parser


def parsed(parser: ArgumentParser) -> Namespace:
    """What was typed, which has to say where rows go."""
    args = parser.parse_args()
    if args.out is None:
        parser.error("--out is missing: rows go there as they come")
    return args


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
