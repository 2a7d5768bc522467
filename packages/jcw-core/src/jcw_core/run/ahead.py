"""How long the stages of a run are expected to take, before they begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jcw_core.logs import logger
from jcw_core.protocols import Ending, Scaling, Stage
from jcw_core.run.context import Context
from jcw_core.run.durations import spent

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Ahead:
    """What a stage and those after it are expected to take.

    Args:
        own: seconds of the stage that are left; None where nothing tells.
        counts_all: whether what it counts in its reports is all of its work.
        later: seconds of those after it, as far as something tells.
        is_whole: False where nothing tells of some of them.
    """

    own: float | None = None
    counts_all: bool = False
    later: float = 0.0
    is_whole: bool = False


def ahead(context: Context, stages: Sequence[Stage]) -> Mapping[str, Ahead]:
    """What is expected at the beginning of each stage, by name.

    Args:
        context: the run.
        stages: those that are to be run, in their order.
    """
    before = context.directory.durations()
    found: dict[str, Ahead] = {}
    later, is_whole = 0.0, True
    for stage in reversed(stages):
        own = _expected(context, stage, before)
        found[stage.name] = Ahead(own, isinstance(stage, Scaling), later, is_whole)
        later, is_whole = later + (own or 0.0), is_whole and own is not None
    return found


def _expected(context: Context, stage: Stage, before: Mapping[str, float]) -> float | None:
    """By what the stage itself tells, else as it took when it ended last; less what interrupted attempts took."""
    try:
        told = stage.ends_after(context) if isinstance(stage, Ending) else None
        if told is None and isinstance(stage, Scaling):
            told = stage.seconds(context) or None  # 0 is what is not known
    except Exception:  # a plugin's, or an error that the stage will have a better place for
        _log.debug("how long %s takes is not known", stage.name, exc_info=True)
        told = None
    told = before.get(stage.name) if told is None else told
    return None if told is None else max(0.0, told - spent(context.directory.scratch_if_any(stage.name)))
