"""Progress in the terminal: bars where there is one, lines now and then where there is none."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from jcw_core.hookspecs import hookimpl
from jcw_core.protocols import Progress as ProgressEvent
from jcw_core.run.pipeline import StageEvent

_SECONDS_BETWEEN_LINES = 5.0


class TerminalProgress:
    """Listens to stages and to ``jcw_progress``. A context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.fields[stage]:9}", style="bold", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
            speed_estimate_period=120,
        )
        self._task: TaskID | None = None
        self._key = ("", "", 0)
        self._started = self._printed = time.monotonic()

    def __enter__(self) -> TerminalProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def stage(self, event: StageEvent) -> None:
        """Show that a stage begins, is skipped or ends."""
        place = f"[{event.index + 1}/{event.total}] {event.stage}"
        if event.state == "started":
            self._started = time.monotonic()
            self._console.print(f"{place} ...", highlight=False, markup=False)
        elif event.state == "ended":
            seconds = time.monotonic() - self._started
            self._finish()
            self._console.print(f"{place} done in {seconds:.1f} s", highlight=False, markup=False)
        else:
            self._console.print(f"{place} finished before", highlight=False, markup=False)

    @hookimpl
    def jcw_progress(self, event: ProgressEvent) -> None:
        """Advance the bar, or print a line when the last is old enough; a message is printed and stays."""
        if not event.total:
            self._console.print(
                f"  {event.stage}: {event.detail}", highlight=False, markup=False, soft_wrap=True
            )
            return
        key = (event.stage, event.unit, event.total)
        if key != self._key:
            self._finish()
            self._key = key
            self._began = time.monotonic()
            self._first = event.done
            self._task = self._bars.add_task(event.unit, stage=event.stage, total=event.total)
        assert self._task is not None
        description = f"{event.unit}  {event.detail}".rstrip()
        self._bars.update(self._task, completed=event.done, description=description)
        if not self._console.is_terminal:
            self._line(event, description)

    def _finish(self) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task, self._key = None, ("", "", 0)

    def _line(self, event: ProgressEvent, description: str) -> None:
        now = time.monotonic()
        if now - self._printed < _SECONDS_BETWEEN_LINES and event.done < event.total:
            return
        self._printed = now
        rate = (event.done - self._first) / max(now - self._began, 1e-9)
        left = (
            f", {(event.total - event.done) / rate:.0f} s left"
            if rate > 0 and event.done < event.total
            else ""
        )
        self._console.print(
            f"  {event.stage}: {event.done}/{event.total} {description}{left}", highlight=False, markup=False
        )
