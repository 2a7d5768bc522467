"""Errors that nobody foresaw: one line that says whose they are, and a file with the traceback."""

from __future__ import annotations

import tempfile
import traceback
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType

from jcw_core.hookspecs import PROJECT


def fault(error: Exception) -> str:
    """Whose fault an error most likely is, where it was raised, and where its whole traceback lies.

    The innermost function of a plugin is to blame: what it calls was called by it.
    """
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    owners = {p.module.split(".")[0]: p.dist.name for p in entry_points(group=PROJECT) if p.dist}
    blamed = [(frame, line) for frame, line in frames if _package(frame) in owners] or frames
    frame, line = blamed[-1]
    owner = owners.get(_package(frame), "python")
    place = f"{Path(frame.f_code.co_filename).name}:{line}, in {frame.f_code.co_name}"
    return f"{owner} failed with {type(error).__name__}: {error} ({place}); {_kept(error)}; tell its author"


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).split(".")[0]


def _kept(error: Exception) -> str:
    """Write the traceback down, and say where."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="jcw-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            traceback.print_exception(error, file=file)
    except OSError:
        return "its traceback could not be written"
    return f"the traceback lies in {file.name}"
