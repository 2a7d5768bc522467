"""The stage ``search``: from a latency table and a supernet to ``front.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

from jcw_core.errors import JcwError, PluginError
from jcw_core.protocols import Configured, Costed, Evaluator, Objective, Run, Selection
from jcw_core.run import records
from jcw_core.shown import count_of, duration
from jcw_core.space.space import Population, SearchSpace
from jcw_search import checkpoint
from jcw_search.algorithms import generations_of, make
from jcw_search.errors import SettingError
from jcw_search.front import front_of
from jcw_search.generations import Generations
from jcw_search.operators import Variation
from jcw_search.options import SearchOptions
from jcw_search.pareto import Floats
from jcw_search.search import Fixed
from jcw_search.spread import end_search, help_search, spread
from jcw_search.state import State

_STATE = "state.npz"
"""Name of the checkpoint."""
_FEWEST = 8
"""Architectures of a population that a time limit leaves."""


def _nothing(space: SearchSpace, population: Population) -> Floats:
    raise AssertionError("nobody asks while settings are checked")


_UNASKED = Fixed(_nothing)
"""In the place of objectives whose files are not there yet."""


class SearchStage:
    """The search over the recipe's objectives."""

    name = "search"
    section = "search"
    options = SearchOptions
    reads = ("network", "data", "space")
    makes = (records.FRONT,)
    spreads = True

    def needs(self, run: Run) -> tuple[str, ...]:
        """What the chosen objectives read.

        Raises:
            RecipeError: a strategy or an objective that is not installed, or targets for a
                strategy that takes none.
        """
        options = run.options(SearchOptions)
        if options.algorithm == "plain":
            _selection(options, run)
        needed: dict[str, None] = {}
        for name in options.objectives:
            try:
                needed |= dict.fromkeys(run.registry.objectives[name].needs)
            except PluginError as error:
                raise _error(run, "objectives", error) from None
        return tuple(needed)

    def check_reads(self, run: Run) -> tuple[str, ...]:
        """Nothing, unless there is a window: then what its objective reads."""
        options = run.options(SearchOptions)
        return tuple(_first(run, options).needs) if options.constraints.has_window else ()

    def check(self, run: Run) -> Sequence[str]:
        """No notes.

        Raises:
            RecipeError: a setting that cannot work in this space: of the population, the variant, a constraint.
        """
        options = run.options(SearchOptions)
        evaluators: dict[str, Evaluator] = dict.fromkeys(options.objectives, _UNASKED)
        if options.constraints.has_window:
            evaluators[options.objectives[0]] = _first(run, options).open(run)
        try:
            _made(run, options, evaluators).check()
        except SettingError as error:
            raise _error(run, error.key, error.problem) from None
        return ()

    def plugins_read(self, run: Run) -> tuple[str, ...]:
        """The recipe tables that the chosen objectives read."""
        chosen = [run.registry.objectives[name] for name in run.options(SearchOptions).objectives]
        return tuple(table for found in chosen if isinstance(found, Configured) for table in found.reads)

    def plan(self, run: Run) -> str:
        """Its population and generations, and how long they take as far as the objectives tell."""
        options, seconds = run.options(SearchOptions), self.seconds(run)
        time = f", about {duration(seconds)} here" if seconds else ""
        return f"population {options.population} x {count_of(_generations(options), 'generation')}{time}"

    def seconds(self, run: Run) -> float:
        """What its objectives take for all architectures, as far as they tell."""
        options = run.options(SearchOptions)
        objectives = (run.registry.objectives[name] for name in options.objectives)
        each = sum(one.seconds(run) for one in objectives if isinstance(one, Costed))
        return each * options.population * (1 + _generations(options)) / run.ranks.size

    def scaled(self, run: Run, share: float) -> Mapping[str, int]:
        """A smaller population and fewer generations, by the same factor."""
        options, factor = run.options(SearchOptions), sqrt(share)
        least = min(_generations(options), 2 if options.variant == "sequential" else 1)
        return {
            "search.population": min(options.population, max(_FEWEST, round(options.population * factor))),
            "search.generations": max(least, round(_generations(options) * factor)),
        }

    def run(self, run: Run) -> Sequence[str]:
        """Search, from the last checkpoint if there is one, and write the front.

        Raises:
            RecipeError: a setting that cannot work here, by its key.
        """
        if not run.ranks.is_first:
            help_search(_evaluators(run), run.space, run.ranks)
            return ()
        try:
            search, state = self._searched(run)
        except SettingError as error:
            raise _error(run, error.key, error.problem) from None
        front_of(run, search, state).write(run.path(records.FRONT))
        end_search(run.ranks)
        return ()

    def so_far(self, scratch: Path) -> str:
        """The front of the last generation."""
        from jcw_search.so_far import so_far

        return so_far(scratch / _STATE)

    def _searched(self, run: Run) -> tuple[Generations, State]:
        search = _search(run, run.options(SearchOptions))
        path = run.scratch(self.name) / _STATE
        state = checkpoint.load(path, search)
        if state is None:
            state = search.start(run.rng(self.name, 0))
            checkpoint.save(path, state, search)
        _tell(run, search, state)
        while not search.is_done(state):
            state = search.step(state, run.rng(self.name, state.generation + 1))
            checkpoint.save(path, state, search)
            _tell(run, search, state)
        return search, state


def _generations(options: SearchOptions) -> int:
    return options.generations or generations_of(options.algorithm)


def _evaluators(run: Run) -> Mapping[str, Evaluator]:
    """The recipe's objectives, opened; every process of the run opens them in one order."""
    return {name: run.registry.objectives[name].open(run) for name in run.options(SearchOptions).objectives}


def _search(run: Run, options: SearchOptions) -> Generations:
    return _made(run, options, spread(_evaluators(run), run.ranks))


def _first(run: Run, options: SearchOptions) -> Objective:
    """The objective that a window is of."""
    return run.registry.objectives[options.objectives[0]]


def _made(run: Run, options: SearchOptions, evaluators: Mapping[str, Evaluator]) -> Generations:
    plain = options.algorithm == "plain"
    return make(
        options.algorithm,
        run.space,
        evaluators,
        population=options.population,
        generations=options.generations,
        variant=options.variant,
        constraints=options.constraints,
        selection=_selection(options, run) if plain else None,
        variation=_variation(options) if plain else None,
    )


def _variation(options: SearchOptions) -> Variation:
    given = {"mu_c": options.mu_c, "mu_m": options.mu_m, "probability": options.mutation}
    return Variation(**{name: value for name, value in given.items() if value is not None})


def _selection(options: SearchOptions, run: Run) -> Selection:
    """The chosen strategy. ``targets`` goes to any that is a dataclass with a field of that name."""
    try:
        strategy: Any = run.registry.selections[options.selection or "uniform"]
    except PluginError as error:
        raise _error(run, "selection", error) from None
    if options.targets is not None:
        known = {f.name for f in fields(strategy)} if is_dataclass(strategy) else set()
        if "targets" not in known:
            raise _error(run, "targets", f"selection {strategy.name!r} takes no targets; leave it out")
        strategy = replace(strategy, targets=options.targets)
    found: Selection = strategy
    return found


def _error(run: Run, key: str, problem: object) -> JcwError:
    return run.recipe.where.inside("search").error(key, str(problem))


def _tell(run: Run, search: Generations, state: State) -> None:
    best = zip(search.evaluators, state.objectives[state.front].min(axis=0), strict=True)
    parts = [f"best {name} {value:.4g}" for name, value in list(best)[1:]]
    parts += [
        f"{len(state.values)} evaluated",
        *([f"{len(state.failed)} failed"] if len(state.failed) else []),
    ]
    detail = ", ".join([f"hypervolume {state.hypervolume[-1]:.3f}", *parts])
    run.progress("search", "generation", state.generation, search.generations, detail)
