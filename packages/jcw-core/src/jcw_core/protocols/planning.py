"""What stages and devices may have besides, so that a user hears early what they would come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from jcw_core.protocols.run import Run


@runtime_checkable
class Checking(Protocol):
    """What a ``Stage`` may have besides: a check of what the recipe asks of it, long before its turn."""

    def check_reads(self, run: Run) -> tuple[str, ...]:
        """Files of the run that ``check`` reads; none where the recipe tells all."""

    def check(self, run: Run) -> Sequence[str]:
        """Called once in a run, as soon as the stages that make those files have finished.

        Returns:
            notes for the user, a sentence each.

        Raises:
            RecipeError: what is asked for cannot be had; names the key and the nearest value that can.
        """


@runtime_checkable
class Planning(Protocol):
    """What a ``Stage`` may have besides: a word on how much it has to do, for dry runs."""

    def plan(self, run: Run) -> str:
        """How much it is, e.g. ``"10 epochs"``."""


@runtime_checkable
class Showing(Protocol):
    """What a ``Stage`` may have besides: what it has found so far, for ``jcw watch``."""

    def so_far(self, scratch: Path) -> str:
        """HTML of what checkpoints hold, ``""`` where there are none; see ``jcw_core.report.charts`` for plots.

        Called every few seconds, in another process than the one that works: files are read only, and some may be gone, of
        an earlier attempt or, unless they are written atomically, half written.

        Args:
            scratch: the stage's folder for checkpoints.
        """


@runtime_checkable
class Scaling(Protocol):
    """What a ``Stage`` may have besides: how long it takes, and settings with which it takes less.

    While it tells of one unit alone (``Progress``), these are taken for all of its work.
    """

    def seconds(self, run: Run) -> float:
        """About how long all of its work takes on this machine; 0 where that is not known."""

    def scaled(self, run: Run, share: float) -> Mapping[str, int]:
        """Settings with which it takes about ``share`` of that, or the least that it can.

        Args:
            run: with the settings as they are.
            share: between 0 and 1.

        Returns:
            values by ``"table.key"`` of the recipe.
        """


@runtime_checkable
class Ending(Protocol):
    """What a ``Stage`` may have besides: an end by the clock, with what it has by then, where a run has a time."""

    def ends_after(self, run: Run) -> float | None:
        """Seconds that it takes at most, which those that are cut to the rest of the time do not have; None for no end."""


@runtime_checkable
class Costed(Protocol):
    """What an ``Objective`` may have besides: how long its values take."""

    def seconds(self, run: Run) -> float:
        """About how long one architecture takes on this machine."""


@runtime_checkable
class Advising(Protocol):
    """What a ``DevicePlugin`` may have besides: notes on options that are possible but hardly meant."""

    def advise(self, options: Any) -> Sequence[str]:
        """A sentence each. ``options`` is an instance of ``self.options``."""
