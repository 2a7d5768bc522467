"""``jcw run``: the stages of a recipe in order, each skipped when it has nothing left to do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jcw_core.errors import JcwError, PluginError
from jcw_core.logs import logger
from jcw_core.names import is_path_inside
from jcw_core.network.graph import Network
from jcw_core.network.shrink import Weights
from jcw_core.protocols import Delegating, Following, Spreading, Stage
from jcw_core.providers import installed_version
from jcw_core.recipe.recipe import canonical, paths_in
from jcw_core.run.ahead import Ahead, ahead
from jcw_core.run.checks import PendingChecks
from jcw_core.run.context import Context
from jcw_core.run.durations import stopwatch

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class StageEvent:
    """A stage is about to run, was found finished, has ended, or has a ``note`` for the user long before its turn.

    ``ahead`` is what is expected of a stage that is about to run and of those after it.
    """

    stage: str
    state: Literal["started", "skipped", "ended", "noted"]
    index: int
    total: int
    note: str = ""
    ahead: Ahead | None = None


def plan(context: Context, until: str = "report") -> list[Stage]:
    """The stages that lead to ``until``, in an order in which they can run.

    Raises:
        PluginError: no installed stage has that name, or makes a file that another needs.
    """
    stages = context.registry.stages
    makers = {made: stage for stage in stages.values() for made in stage.makes}
    ordered: dict[str, Stage] = {}
    path: list[str] = []

    def visit(stage: Stage) -> None:
        if stage.name in ordered:
            return
        if stage.name in path:
            raise PluginError(f"stages need each other in a circle: {' -> '.join([*path, stage.name])}")
        path.append(stage.name)
        for needed in stage.needs(context):
            if needed not in makers:
                raise PluginError(
                    f"stage {stage.name!r} needs {needed}, which no installed stage makes; "
                    f"there is: {', '.join(stages)}; install the package that makes it"
                )
            visit(makers[needed])
        path.pop()
        ordered[stage.name] = stage

    visit(stages[until])
    return list(ordered.values())


def finished(context: Context, stages: Iterable[Stage]) -> list[Stage]:
    """Those of ``stages``, in the order of ``plan``, that a run would skip."""
    done: list[Stage] = []
    for stage in stages:
        needed, made = stage.needs(context), {m for s in done for m in s.makes}
        if made.issuperset(needed) and context.directory.is_finished(stage.name, _inputs_key(context, stage)):
            done.append(stage)
    return done


def _to_run(context: Context, stages: Sequence[Stage]) -> list[Stage]:
    done = finished(context, stages)
    return [stage for stage in stages if stage not in done]


def run(
    context: Context, until: str = "report", notify: Callable[[StageEvent], None] = lambda _: None
) -> None:
    """Run the stages that lead to ``until``.

    Args:
        context: the run; its directory is locked until the end. Of several processes the first decides what is done,
            writes and notifies, and calls the others for the stages that spread.
        until: name of the last stage.
        notify: told when a stage starts, is skipped or ends.

    Raises:
        JcwError: from a stage. What was finished stays, and running again continues from there.
    """
    if not context.ranks.is_first:
        _help(context)
        return
    stages = plan(context, until)
    names, checks = [stage.name for stage in stages], PendingChecks(context, stages)
    expected: Mapping[str, Ahead] = {}

    def check_after(made: Iterable[str]) -> None:
        for name, note in checks.after(made):
            notify(StageEvent(name, "noted", names.index(name), len(stages), note))

    with context.directory.locked():
        check_after(())
        for index, stage in enumerate(stages):
            key = _inputs_key(context, stage)
            if context.directory.is_finished(stage.name, key):
                _log.info("stage %s was finished before", stage.name)
                notify(StageEvent(stage.name, "skipped", index, len(stages)))
            else:
                _log.info(
                    "stage %s begins, %d of %d, in %s", stage.name, index + 1, len(stages), context.path(".")
                )
                expected = expected or ahead(context, _to_run(context, stages))
                found = expected.get(stage.name)
                notify(StageEvent(stage.name, "started", index, len(stages), ahead=found))
                _run_stage(context, stage, key)
                notify(StageEvent(stage.name, "ended", index, len(stages)))
            check_after(stage.makes)
        _call(context, "")


def _help(context: Context) -> None:
    """What the processes beside the first do: they work on the stages that it calls them for, until there are no more."""
    while name := _call(context, ""):
        _log.info("stage %s begins in process %d of %d", name, context.ranks.rank + 1, context.ranks.size)
        context.registry.stages[name].run(context)
        context.ranks.wait()


def _call(context: Context, stage: str) -> str:
    """The stage for which the first process calls the others."""
    return context.ranks.first(lambda: stage)


def _run_stage(context: Context, stage: Stage, key: str) -> None:
    if context.directory.claim_scratch(stage.name, key):
        context.progress(stage.name, "", 0, 0, "was begun with other settings or files, and begins anew")
    spreads = isinstance(stage, Spreading) and stage.spreads
    if spreads:
        _call(context, stage.name)
    with stopwatch(context.scratch(stage.name)) as seconds:
        outputs = (*stage.makes, *stage.run(context))
        if spreads:  # before what the others may still read is put away
            context.ranks.wait()
    outside = [name for name in outputs if not is_path_inside(name)]
    if outside:
        raise JcwError(
            f"stage {stage.name!r} wrote {outside[0]!r:.60}, which is no path inside the run; tell its author"
        )
    missing = [name for name in outputs if not context.path(name).exists()]
    if missing:
        raise JcwError(f"stage {stage.name!r} ended without writing {missing[0]}; tell its author")
    context.directory.finish(stage.name, key, outputs, seconds())
    _log.info("stage %s ended after %.1f s and wrote %s", stage.name, seconds(), ", ".join(outputs))


def is_finished(context: Context, name: str) -> bool:
    """True when the files of the stage ``name`` are there and were made from what the recipe says now."""
    return context.directory.is_finished(name, _inputs_key(context, context.registry.stages[name]))


def _inputs_key(context: Context, stage: Stage) -> str:
    """Fingerprint of all that the stage's result depends on: options, files, and who wrote the stage."""
    read = ["run", *stage.reads, stage.section]
    if isinstance(stage, Delegating):
        read += stage.plugins_read(context)
    tables = {name: context.recipe.table(name) for name in read if name}
    # Where a run lies changes nothing in it, nor how many threads read its images, and it may go on where there is a GPU or
    # none; a time changes other keys.
    tables["run"] = replace(context.recipe.run, name="", workers=0, time="", accelerator="auto")
    parts = {name: canonical(options) for name, options in tables.items()}
    if "network" in tables and context.recipe.network.module:
        parts["module"] = _fingerprint(context.network, context.weights or {})
    origin = context.registry.stages.origins[stage.name]
    files = {name: context.path(name) for name in _read(context, stage)}
    files |= {str(path): path for options in tables.values() for path in paths_in(options)}
    return context.directory.inputs_key(
        parts | {"stage": f"{origin} {installed_version(origin) or ''}"}, files
    )


def _read(context: Context, stage: Stage) -> set[str]:
    """The files that a stage needs, and what else their makers wrote: an index stays the same when its files change.

    Besides, what it follows and is there.
    """
    needed = set(stage.needs(context))
    makers = [one.name for one in context.registry.stages.values() if needed.intersection(one.makes)]
    follows = stage.follows(context) if isinstance(stage, Following) else ()
    there = [name for name in follows if context.path(name).exists()]
    return needed.union(there, *(context.directory.outputs(name) for name in makers))


def _fingerprint(network: Network, weights: Weights) -> str:
    """Of what a user's own code makes, which may change although the recipe stays."""
    content = hashlib.sha256(network.to_json().encode())
    for name in sorted(weights):
        content.update(weights[name].tobytes())
    return content.hexdigest()
