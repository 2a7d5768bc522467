"""The stage ``search``: from a latency table and a supernet to ``front.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from jcw_core.errors import JcwError, PluginError
from jcw_core.protocols import Configured, Run, Selection
from jcw_core.run import records
from jcw_search import checkpoint
from jcw_search.evolution import Evolution, State
from jcw_search.operators import Variation
from jcw_search.options import SearchOptions


class SearchStage:
    """Algorithm 1 over the recipe's objectives."""

    name = "search"
    section = "search"
    options = SearchOptions
    reads = ("network", "data", "space")
    makes = (records.FRONT,)

    def needs(self, run: Run) -> tuple[str, ...]:
        """What the chosen objectives read.

        Raises:
            RecipeError: a strategy or an objective that is not installed, or targets for a
                strategy that takes none.
        """
        options = run.options(SearchOptions)
        _selection(options, run)
        needed: dict[str, None] = {}
        for name in options.objectives:
            try:
                needed |= dict.fromkeys(run.registry.objectives[name].needs)
            except PluginError as error:
                raise _error(run, "objectives", error) from None
        return tuple(needed)

    def plugins_read(self, run: Run) -> tuple[str, ...]:
        """The recipe tables that the chosen objectives read."""
        chosen = [run.registry.objectives[name] for name in run.options(SearchOptions).objectives]
        return tuple(table for found in chosen if isinstance(found, Configured) for table in found.reads)

    def plan(self, run: Run) -> str:
        """Its population and generations."""
        options = run.options(SearchOptions)
        return f"population {options.population} x {options.generations} generations"

    def run(self, context: Run) -> Sequence[str]:
        """Search, from the last checkpoint if there is one, and write the front."""
        options = context.options(SearchOptions)
        evolution = _evolution(context, options)
        path = context.scratch(self.name) / "state.npz"
        state = checkpoint.load(path, evolution)
        if state is None:
            state = evolution.start(context.rng(self.name, 0))
            checkpoint.save(path, state)
        _tell(context, evolution, state)
        while not evolution.is_done(state):
            state = evolution.step(state, context.rng(self.name, state.generation + 1))
            checkpoint.save(path, state)
            _tell(context, evolution, state)
        _front(context, evolution, state).write(context.path(records.FRONT))
        return ()


def _evolution(context: Run, options: SearchOptions) -> Evolution:
    objectives = context.registry.objectives
    return Evolution(
        space=context.space,
        evaluators={name: objectives[name].open(context) for name in options.objectives},
        selection=_selection(options, context),
        population=options.population,
        generations=options.generations,
        variant=options.variant,
        variation=Variation(options.mu_c, options.mu_m, options.mutation),
    )


def _selection(options: SearchOptions, run: Run) -> Selection:
    """The chosen strategy. ``targets`` goes to any that is a dataclass with a field of that name."""
    try:
        strategy: Any = run.registry.selections[options.selection]
    except PluginError as error:
        raise _error(run, "selection", error) from None
    if options.targets is not None:
        known = {f.name for f in fields(strategy)} if is_dataclass(strategy) else set()
        if "targets" not in known:
            raise _error(run, "targets", f"selection {options.selection!r} takes no targets; leave it out")
        strategy = replace(strategy, targets=options.targets)
    found: Selection = strategy
    return found


def _error(run: Run, key: str, problem: object) -> JcwError:
    return run.recipe.where.inside("search").error(key, str(problem))


def _tell(context: Run, evolution: Evolution, state: State) -> None:
    best = zip(evolution.evaluators, state.objectives[state.front].min(axis=0), strict=True)
    parts = [f"best {name} {value:.4g}" for name, value in list(best)[1:]]
    detail = ", ".join([f"hypervolume {state.hypervolume[-1]:.3f}", *parts, f"{len(state.values)} evaluated"])
    context.progress("search", "generation", state.generation, evolution.generations, detail)


def _front(context: Run, evolution: Evolution, state: State) -> records.Front:
    names = tuple(evolution.evaluators)
    candidates = [
        records.Candidate(
            evolution.space.architecture(state.values[index]),
            dict(zip(names, state.objectives[index].tolist(), strict=True)),
        )
        for index in state.front
    ]
    units = {name: context.registry.objectives[name].unit for name in names}
    return records.Front(context.network.name, units, candidates, _summary(evolution, state))


def _summary(evolution: Evolution, state: State) -> Mapping[str, Any]:
    return {
        "strategy": evolution.selection.name,
        "variant": evolution.variant,
        "generations": len(state.hypervolume) - 1,
        "population": evolution.population,
        "evaluated": len(state.values),
        "hypervolume": state.hypervolume.tolist(),
        "population_latency_ms": state.objectives[state.population, 0].tolist(),
    }
