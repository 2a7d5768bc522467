"""The pages that ``jcw watch`` serves: the run while it goes on, and its report afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from jcw_core.protocols import Stage
from jcw_core.report.stages import PAGE
from jcw_core.watch.look import STATE, Look, look
from jcw_core.watch.page import content, page
from jcw_core.watch.server import Answer


@dataclass(frozen=True, slots=True)
class Pages:
    """Of one run.

    Args:
        root: its folder.
        stages: that are installed, by name.
    """

    root: Path
    stages: Mapping[str, Stage]

    @property
    def by_path(self) -> Mapping[str, Callable[[], Answer]]:
        """What is served where."""
        return {"/": self.whole, "/now": self.now}

    def whole(self) -> Answer:
        """The report once the run has ended, else the page that follows the run."""
        found = look(self.root)
        report = self._report(found)
        return Answer(HTTPStatus.OK, _bytes(page(found, self.stages)) if report is None else report)

    def now(self) -> Answer:
        """What has changed on that page; nothing where the report has taken its place."""
        found = look(self.root)
        if self._report(found) is not None:
            return Answer(HTTPStatus.NO_CONTENT)
        return Answer(HTTPStatus.OK, _bytes(content(found, self.stages)))

    def _report(self, found: Look) -> bytes | None:
        """The report, unless it is of an earlier attempt or not there."""
        is_known = any(PAGE in self.stages[name].makes for name in found.finished if name in self.stages)
        if found.standing is not None or not (is_known or not (self.root / STATE).exists()):
            return None
        try:
            return (self.root / PAGE).read_bytes()
        except OSError:
            return None


def _bytes(html: str) -> bytes:
    """Names in files may be no characters."""
    return html.encode("utf-8", errors="backslashreplace")
