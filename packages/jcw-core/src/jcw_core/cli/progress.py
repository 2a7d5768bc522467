"""Progress in the terminal: bars where there is one, lines now and then where there is none."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta
from types import TracebackType

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from jcw_core.cli.quiet import is_quiet
from jcw_core.hookspecs import hookimpl
from jcw_core.names import printable
from jcw_core.protocols import Progress as ProgressEvent
from jcw_core.run.pipeline import StageEvent
from jcw_core.run.time_left import TimeLeft

_SECONDS_BETWEEN_LINES = 5.0


class _Left(ProgressColumn):
    """The time left by the task's own estimate: rich's rate is that of the last reports."""

    def render(self, task: Task) -> Text:
        """Hours, minutes and seconds."""
        left = task.fields["left"].seconds(time.monotonic())
        shown = "-:--:--" if left is None else str(timedelta(seconds=round(left)))
        return Text(shown, style="progress.remaining")


class _Bars(Progress):
    """Bars, and below them a line on all that is left of a run."""

    time_left: TimeLeft | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bars and the line."""
        yield self.make_tasks_table(self.tasks)
        if self.time_left is not None:
            left = self.time_left.left(time.monotonic())
            yield Text("time left in all is not known yet" if left is None else str(left), style="dim")


class TerminalProgress:
    """Listens to stages and to ``jcw_progress``; says nothing where the command is quiet. A context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, quiet=is_quiet())
        self._bars = _Bars(
            TextColumn("{task.fields[stage]:9}", style="bold", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            _Left(),
            console=self._console,
            disable=self._console.quiet or not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._key = ("", "", 0)
        self._started = self._printed = time.monotonic()
        self._left = TimeLeft(self._started)
        self._ended = ("", "")

    def __enter__(self) -> TerminalProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.time_left = None  # what is shown last stays
        self._bars.stop()

    def stage(self, event: StageEvent) -> None:
        """Show that a stage begins, is skipped or ends."""
        place = printable(f"[{event.index + 1}/{event.total}] {event.stage}")
        if event.state == "started":
            self._started = time.monotonic()
            self._left.stage(event, self._started)
            self._bars.time_left = self._left  # a command of a single stage has no whole
            self._say(f"{place} ...")
        elif event.state == "ended":
            seconds = time.monotonic() - self._started
            self._bars.time_left = None
            self._finish()
            self._say(f"{place} done in {seconds:.1f} s")
        elif event.state == "noted":
            self._say(f"{place}: note: {printable(event.note)}")
        else:
            self._say(f"{place} finished before")

    @hookimpl
    def jcw_progress(self, event: ProgressEvent) -> None:
        """Advance the bar, or print a line when the last is old enough; a message is printed and stays."""
        if not event.total:
            self._say(f"  {event.stage}: {event.detail}")
            return
        self._left.report(event, time.monotonic())
        key = (event.stage, event.unit, event.total)
        if key != self._key:
            self._finish()
            self._key = key
            self._task = self._bars.add_task(
                printable(event.unit), stage=printable(event.stage), total=event.total, left=self._left.unit
            )
        assert self._task is not None
        description = printable(f"{event.unit}  {event.detail}".rstrip())
        self._bars.update(self._task, completed=event.done, description=description)
        if not self._console.is_terminal:
            self._line(event, description)

    def _say(self, line: str) -> None:
        # Not wrapped: a terminal does that itself, and a log should have one line for each.
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _finish(self) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task, self._key = None, ("", "", 0)

    def _line(self, event: ProgressEvent, description: str) -> None:
        now, kind = time.monotonic(), (event.stage, event.unit)
        # An end is told at once, but not each of the many that a kind of unit may have, as sweeps do.
        is_new_end = event.done >= event.total and kind != self._ended
        if now - self._printed < _SECONDS_BETWEEN_LINES and not is_new_end:
            return
        self._printed = now
        self._ended = kind if event.done >= event.total else self._ended
        seconds, whole = self._left.unit.seconds(now), self._left.left(now)
        left = "" if seconds is None else f", {seconds:.0f} s left"
        left += "" if whole is None else f"; {whole}"
        line = f"  {printable(event.stage)}: {event.done}/{event.total} {description}{left}"
        self._say(line)
