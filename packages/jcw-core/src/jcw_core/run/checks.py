"""What is known to be wrong with a run before its stages have their turn."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from jcw_core.protocols import Advising, Checking, Stage
from jcw_core.run import records
from jcw_core.run.context import Context
from jcw_core.run.export import ExportOptions


def check(context: Context, stages: Iterable[Stage]) -> list[str]:
    """Make all that the recipe stands for, so that what cannot be made ends a run before its first stage.

    Returns:
        notes for the user, a sentence each.

    Raises:
        RecipeError: no such network or images, a search space that does not go with the network.
    """
    context.space  # noqa: B018  made once and kept
    if any(records.EVALUATION in stage.makes for stage in stages):
        context.dataset("test")
    return [*_threads(context), *_device(context), *_precision(context)]


def available_cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _threads(context: Context) -> Iterator[str]:
    wanted, cores = context.recipe.run.threads, available_cores()
    if wanted > cores:
        yield f"run.threads = {wanted}, but only {cores} processor(s) are there; more threads than that only wait"


def _device(context: Context) -> Sequence[str]:
    choice = context.recipe.device
    plugin = None if choice is None else context.registry.devices[choice.name]
    return plugin.advise(choice.options) if choice and isinstance(plugin, Advising) else ()


def _precision(context: Context) -> Iterator[str]:
    """Latencies that are predicted for other files than those that are handed over."""
    device = context.recipe.device
    timed = getattr(device.options, "precision", None) if device else None
    exported = context.options(ExportOptions).precision
    if timed and timed != exported:
        yield (
            f"device.precision is {timed!r} and export.precision {exported!r}: latencies are predicted for the former, and "
            "measured of files of the latter"
        )


class PendingChecks:
    """The checks that the stages of a run ask for, each made once, as soon as the files that it reads are there.

    Args:
        context: the run.
        stages: those that will run.
    """

    def __init__(self, context: Context, stages: Iterable[Stage]) -> None:
        self._context = context
        self._waiting = [stage for stage in stages if isinstance(stage, Checking)]
        self._made: set[str] = set()

    def after(self, made: Iterable[str]) -> list[tuple[str, str]]:
        """Make the checks that were waiting for the files ``made``, or for none.

        Returns:
            (stage, note) pairs for the user.

        Raises:
            RecipeError: from a check.
        """
        self._made.update(made)
        ready = [s for s in self._waiting if self._made.issuperset(s.check_reads(self._context))]
        self._waiting = [stage for stage in self._waiting if stage not in ready]
        return [(str(stage.name), note) for stage in ready for note in stage.check(self._context)]
