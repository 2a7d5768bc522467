"""What ``jcw run --dry-run`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jcw_core.cli.text import echo, echo_json
from jcw_core.cli.text import note as tell
from jcw_core.protocols import Planning, Stage
from jcw_core.run.checks import PendingChecks
from jcw_core.run.context import Context
from jcw_core.run.pipeline import finished


def print_plan(context: Context, stages: Sequence[Stage], *, as_json: bool = False) -> None:
    """Print a line for each stage: what it makes, how much it has to do, and whether that is done.

    Args:
        as_json: print each as a JSON object.

    Raises:
        RecipeError: what the recipe asks of a stage cannot be had, as far as files of finished stages tell.
    """
    done, checks = finished(context, stages), PendingChecks(context, stages)
    notes = [note for made in ((), *(stage.makes for stage in done)) for note in checks.after(made)]
    rows = (_row(stage, context, stage in done) for stage in stages)
    if as_json:
        echo_json(rows)
    else:
        for row in rows:
            echo(_line(row))
    for name, note in notes:
        tell(f"note: {name}: {note}")


def _row(stage: Stage, context: Context, is_finished: bool) -> dict[str, Any]:
    """What is said of a stage; ``work`` is None where it cannot tell."""
    work = stage.plan(context) if isinstance(stage, Planning) else None
    return {"stage": stage.name, "makes": list(stage.makes), "work": work, "finished": is_finished}


def _line(row: Mapping[str, Any]) -> str:
    words = "; ".join(filter(None, (row["work"], "finished" if row["finished"] else "")))
    return f"{row['stage']:12} -> {', '.join(row['makes'])}" + (f"  ({words})" if words else "")
