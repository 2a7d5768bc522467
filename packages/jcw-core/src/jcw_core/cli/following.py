"""A run followed: in the terminal, and in a file for those who watch it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from jcw_core.cli.progress import TerminalProgress
from jcw_core.errors import continues_from
from jcw_core.registry import Registry
from jcw_core.run.pipeline import StageEvent
from jcw_core.run.standing import telling


@contextmanager
def following(root: Path, registry: Registry) -> Iterator[Callable[[StageEvent], None]]:
    """Show and note how far a run comes; what ends it is told from where the same command continues.

    Args:
        root: the run's folder.
        registry: whose listeners are told of progress.

    Yields:
        what is to be called when a stage begins, ends or is skipped.
    """
    with continues_from(root), TerminalProgress() as progress, telling(root, registry) as note_standing:
        registry.add("terminal-progress", progress)

        def tell(event: StageEvent) -> None:
            note_standing(event)
            progress.stage(event)

        yield tell
