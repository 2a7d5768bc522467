"""``look``: what a run's folder says at one moment, read without its lock and without a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jcw_core.errors import FormatError, JcwError
from jcw_core.run.directory import RunDirectory
from jcw_core.run.origin import ORIGIN
from jcw_core.run.standing import Standing

STATE = ".state"
_SIGNS = (STATE, ORIGIN, "report.json")
"""Of these a run has one at least; a copy of it may lack those that are hidden."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a run's folder says.

    Args:
        root: the folder.
        standing: of the process that works on it; None where none does.
        finished: seconds by stage, in the order in which they ended; None where that is not known.
        begun: stages that have checkpoints and do not work.
    """

    root: Path
    standing: Standing | None
    finished: Mapping[str, float | None]
    begun: Sequence[str]


def look(root: Path) -> Look:
    """Look at a run; what is damaged, or just being replaced, counts as not there."""
    seconds = RunDirectory(root).durations()
    try:
        standing = Standing.read(root)
    except FormatError:
        standing = None
    # Records of an earlier attempt stay until their stage runs again.
    finished = seconds if standing is None else {stage: seconds.get(stage) for stage in standing.finished}
    works = standing.stage if standing else None
    begun = [path.name for path in sorted((root / STATE).glob("*/")) if path.name not in (works, *finished)]
    return Look(root, standing, finished, begun)


def require_run(root: Path) -> None:
    """Raise ``JcwError`` where a folder is no run; it names some that are nearby."""
    if _is_run(root):
        return
    is_there = root.is_dir()
    near = [str(path) for path in sorted((root if is_there else root.parent).glob("*/")) if _is_run(path)]
    instead = f"there is: {', '.join(near[:5])}" if near else "jcw run makes one, and names it at its end"
    raise JcwError(f"{root}: {'holds no run' if is_there else 'no such run'}; {instead}")


def _is_run(folder: Path) -> bool:
    return any((folder / sign).exists() for sign in _SIGNS)
