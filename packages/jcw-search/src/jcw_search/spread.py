"""Evaluations spread over the processes of a run: the first searches, the others value their share of each generation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jcw_core.errors import JcwError, PluginError
from jcw_core.protocols import Evaluator, Reevaluating
from jcw_core.ranks import RankError, Ranks
from jcw_core.space.space import Population, SearchSpace
from jcw_search.evaluation import is_exact
from jcw_search.pareto import Floats

_Call = tuple[str, str, Population, int]
"""An objective, a method of its evaluator, the population, and the number of the generation."""


def spread(evaluators: Mapping[str, Evaluator], ranks: Ranks) -> Mapping[str, Evaluator]:
    """Evaluators for the search in the first process, which have the others help; exact ones cost too little for that.

    Only one process searches, so that no two can come to differ over the last bit of a number.
    """
    if ranks.size == 1:
        return evaluators
    return {name: one if is_exact(one) else _spread(name, one, ranks) for name, one in evaluators.items()}


def help_search(evaluators: Mapping[str, Evaluator], space: SearchSpace, ranks: Ranks) -> None:
    """What the other processes do until the search in the first is over."""
    while call := _announced(ranks, None):
        name, method, population, generation = call
        if method == "begin_generation":
            evaluators[name].begin_generation(population, generation)
            continue
        try:
            _shared(evaluators[name], method, space, population, ranks)
        except RankError:
            raise
        except JcwError:  # the first process knows it, too, and goes on or ends the search
            continue


def end_search(ranks: Ranks) -> None:
    """Tell the others that it is over."""
    _announced(ranks, None)


def _spread(name: str, evaluator: Evaluator, ranks: Ranks) -> Evaluator:
    kind = _SpreadAgain if isinstance(evaluator, Reevaluating) else _Spread
    return kind(name, evaluator, ranks)


class _Spread:
    """An evaluator that calls the other processes for each of its calls."""

    def __init__(self, name: str, evaluator: Evaluator, ranks: Ranks) -> None:
        self._name, self._evaluator, self._ranks = name, evaluator, ranks

    def begin_generation(self, population: Population, generation: int) -> bool:
        """Begin it everywhere: what is trained is trained together."""
        _announced(self._ranks, (self._name, "begin_generation", population, generation))
        return self._evaluator.begin_generation(population, generation)

    def evaluate(self, space: SearchSpace, population: Population) -> Floats:
        """One value per architecture, (n,)."""
        return self._values("evaluate", space, population)

    def _values(self, method: str, space: SearchSpace, population: Population) -> Floats:
        _announced(self._ranks, (self._name, method, population, 0))
        return _shared(self._evaluator, method, space, population, self._ranks)


class _SpreadAgain(_Spread):
    """One that has data which no search has seen."""

    def reevaluate(self, space: SearchSpace, population: Population) -> Floats:
        """One value per architecture, (n,)."""
        return self._values("reevaluate", space, population)


def _announced(ranks: Ranks, call: _Call | None) -> _Call | None:
    """The call that the first process makes; None where there are no more."""
    return ranks.first(lambda: call)


def _shared(
    evaluator: Evaluator, method: str, space: SearchSpace, population: Population, ranks: Ranks
) -> Floats:
    """Value this process's share, and put the shares together.

    Raises:
        JcwError: the evaluator failed, here or in another process.
    """
    found, error = _own(evaluator, method, space, population[ranks.share(len(population))])
    parts = ranks.gather((found, str(error or "")))
    if error is not None:
        raise error
    for _, message in parts:
        if message:
            raise JcwError(message)
    values = np.empty(len(population))
    for rank, (part, _) in enumerate(parts):
        values[rank :: ranks.size] = part
    return values


def _own(
    evaluator: Evaluator, method: str, space: SearchSpace, rows: Population
) -> tuple[Floats, JcwError | None]:
    """The values of some rows, or why there are none."""
    try:
        found = np.asarray(getattr(evaluator, method)(space, rows) if len(rows) else (), dtype=np.float64)
        if found.shape != (len(rows),):
            raise PluginError(f"an objective gave values of shape {found.shape}, expected ({len(rows)},)")
    except RankError:
        raise
    except JcwError as error:
        return np.empty(0), error
    return found, None
