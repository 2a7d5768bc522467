"""``Ranks``: the processes that work on one run together, each of which runs the same code in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from jcw_core.errors import JcwError

T = TypeVar("T")


class RankError(JcwError):
    """Another process of this run is gone, so that nothing more can be done together.

    Args:
        what: happened.
    """

    page = "docs/scaling.md"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}; what is finished stays, and the same command goes on from there, with any number of processes"
        )


class Ranks:
    """One process by itself, and what several would ask of each other.

    Where there are several, a subclass is handed over by the hook ``jcw_join_ranks``. All of them have to call its
    methods, but for ``share`` and ``speaks``, in the same order; each waits there for the others, and raises
    ``RankError`` where one is gone.
    """

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """True in the one that writes files and talks to the user."""
        return self.rank == 0

    def share(self, count: int) -> range:
        """Those of ``count`` pieces of work, 0 to ``count - 1``, that fall to this process."""
        return range(self.rank, count, self.size)

    def wait(self) -> None:
        """Go on when all have come here."""

    def first(self, call: Callable[[], T]) -> T:
        """What ``call`` returns in the first process, which alone calls it; in all of them."""
        return call()

    def gather(self, value: T) -> list[T]:
        """The ``value`` of each, by rank, in all of them."""
        return [value]

    def add(self, tensor: object) -> None:
        """Put the sum of all processes' torch tensors, which are alike, into each of them."""

    def copy(self, tensor: object) -> None:
        """Put the first process's torch tensor into those of the others."""

    def speaks(self) -> bool:
        """True in the process that is the first to ask, which is the one to say what ends them all; may be asked once."""
        return True

    def leave(self) -> None:
        """Be done with the others."""
