"""The processes that ``torchrun`` starts: they talk through torch's process group."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

# For what it does when imported: the defaults of its functions hold the process group that there is. Imported later, as
# torch does by itself, it would keep a group that is taken down, whose threads then run into the interpreter's end
# and abort the process.
import torch.distributed.nn.functional
from torch import Tensor

from jcw_core.errors import JcwError
from jcw_core.ranks import RankError, Ranks

T = TypeVar("T")

_PATIENCE = timedelta(days=30)
"""While the first process profiles a phone the others have nothing to do. One that is gone is noticed at once all the same."""
_SPOKEN = "jcw/spoken"


class Joined(Ranks):
    """One of several processes, as the environment variables of ``torchrun`` describe it.

    Raises:
        RankError: the others were not there in time.
        JcwError: the port at which they are to meet is taken.
    """

    def __init__(self) -> None:
        cuda = torch.cuda.is_available() and dist.is_nccl_available()
        with _gone(), _taken():
            self._store, self.rank, self.size = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if cuda else "gloo",
                store=dist.PrefixStore("jcw/group", self._store),  # type: ignore[attr-defined]
                rank=self.rank,
                world_size=self.size,
                timeout=_PATIENCE,
            )

    def wait(self) -> None:
        """Go on when all have come here."""
        self.gather(None)

    def first(self, call: Callable[[], T]) -> T:
        """What ``call`` returns in the first process."""
        found: list[T | None] = [call() if self.is_first else None]
        with _gone():
            dist.broadcast_object_list(found, src=0)
        return found[0]  # type: ignore[return-value]

    def gather(self, value: T) -> list[T]:
        """The ``value`` of each, by rank."""
        found: list[T | None] = [None] * self.size
        with _gone():
            dist.all_gather_object(found, value)
        return found  # type: ignore[return-value]

    def add(self, tensor: object) -> None:
        """Add up a tensor in place."""
        assert isinstance(tensor, Tensor)
        with _gone():
            dist.all_reduce(tensor)

    def copy(self, tensor: object) -> None:
        """Put the first process's tensor into this one's."""
        assert isinstance(tensor, Tensor)
        with _gone():
            dist.broadcast(tensor, src=0)

    def speaks(self) -> bool:
        """True in the first process that asks; in all where nobody can be asked any more."""
        try:
            return bool(self._store.add(_SPOKEN, 1) == 1)
        except RuntimeError:
            return True

    def leave(self) -> None:
        """Take the process group down, with its threads."""
        with suppress(RuntimeError):
            dist.destroy_process_group()


@contextmanager
def _gone() -> Iterator[None]:
    """Say in a line what torch says in many, in words that depend on the backend."""
    try:
        yield
    except RuntimeError:
        raise RankError("another process of this run has ended") from None


@contextmanager
def _taken() -> Iterator[None]:
    """Say which port the first process cannot open; of torch's errors only the text tells that one."""
    try:
        yield
    except RuntimeError as error:
        if "address already in use" not in str(error).lower():
            raise
        raise JcwError(
            f"port {os.environ['MASTER_PORT']}, at which the processes of this run are to meet, is taken by another "
            "program, perhaps another run; give each run a free one, in MASTER_PORT or as torchrun --master-port",
            see=RankError.page,
        ) from None
