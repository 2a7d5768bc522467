"""Progress shows words as they are, in a terminal and without one."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from jcw_core.cli.progress import TerminalProgress
from jcw_core.protocols import Progress
from jcw_core.run.pipeline import StageEvent


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("word", ["[/x]", "[bold]"])
def test_words_are_not_markup(word: str, terminal: bool) -> None:
    written = StringIO()
    with TerminalProgress(Console(file=written, force_terminal=terminal, width=100)) as progress:
        progress.stage(StageEvent(word, "started", 0, 1))
        progress.jcw_progress(Progress("stage", word, 2, 2, f"detail {word}"))
        progress.jcw_progress(Progress(word, "layer", 2, 2, "at the end"))
    assert f"[1/1] {word}" in written.getvalue()
    assert written.getvalue().count(word) >= 3
