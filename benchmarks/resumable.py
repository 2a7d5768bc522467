"""Rows that are kept as they come, so that a long benchmark goes on where it was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from harness import Row


def rows_of(settings: Iterable[Row], measure: Callable[[Row], Row], out: Path | None) -> Iterator[Row]:
    """Each setting with what ``measure`` gives for it, taken from ``OUT.partial`` where it is there.

    Args:
        settings: what to measure, each different.
        measure: of one setting.
        out: where results will go; None keeps nothing.
    """
    path = None if out is None else out.with_name(f"{out.name}.partial")
    known = {} if path is None else _read(path)
    for setting in settings:
        key = json.dumps(setting, sort_keys=True)
        if key not in known:
            row = setting | measure(setting)
            known[key] = row
            if path is not None:
                with path.open("a", encoding="utf-8") as file:
                    # In front, since the line before may have been cut off.
                    file.write("\n" + json.dumps([setting, row]))
        yield known[key]


def forget(out: Path) -> None:
    """Remove what was kept, once the results stand in ``out``."""
    out.with_name(f"{out.name}.partial").unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Row]:
    """Rows by setting; a last line that was cut off counts as absent."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            setting, row = json.loads(line)
        except ValueError:
            continue
        found[json.dumps(setting, sort_keys=True)] = row
    return found
