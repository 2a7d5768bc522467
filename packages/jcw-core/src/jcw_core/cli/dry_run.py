"""What ``jcw run --dry-run`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from jcw_core.cli.text import echo
from jcw_core.cli.text import note as tell
from jcw_core.protocols import Planning, Stage
from jcw_core.run.checks import PendingChecks
from jcw_core.run.context import Context
from jcw_core.run.pipeline import finished


def print_plan(context: Context, stages: Sequence[Stage]) -> None:
    """Print a line for each stage: what it makes, how much it has to do, and whether that is done.

    Raises:
        RecipeError: what the recipe asks of a stage cannot be had, as far as files of finished stages tell.
    """
    done, checks = finished(context, stages), PendingChecks(context, stages)
    notes = [note for made in ((), *(stage.makes for stage in done)) for note in checks.after(made)]
    for stage in stages:
        words = [stage.plan(context)] if isinstance(stage, Planning) else []
        words += ["finished"] if stage in done else []
        echo(f"{stage.name:12} -> {', '.join(stage.makes)}" + (f"  ({'; '.join(words)})" if words else ""))
    for name, note in notes:
        tell(f"note: {name}: {note}")
