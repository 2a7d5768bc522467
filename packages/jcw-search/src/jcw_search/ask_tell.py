"""``AskTell``: a search for pipelines of one's own, which evaluate where and when they like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jcw_core.errors import JcwError
from jcw_core.space.space import Population, SearchSpace
from jcw_search.algorithms import Algorithm, make
from jcw_search.evaluation import evaluate
from jcw_search.pareto import Floats
from jcw_search.search import Fixed, SearchResult
from jcw_search.state import State

Function = Callable[[SearchSpace, Population], Any]


class AskTell:
    """A search that is asked for architectures, and told what they are worth.

    Args:
        space: where to search.
        objectives: by name, latency first: a function of (space, population) where values are cheap and
            exact, None where they are told.
        algorithm: ``"assisted"`` or ``"plain"``.
        seed: the same seed and the same values give the same search.
        settings: ``population``, ``generations``, ``variant``, ``constraints``, as for ``search``.

    Raises:
        JcwError: an impossible setting, or no objective that is told.
    """

    def __init__(
        self,
        space: SearchSpace,
        objectives: Mapping[str, Function | None],
        *,
        algorithm: Algorithm = "assisted",
        seed: int = 0,
        **settings: Any,
    ) -> None:
        self._told = [name for name, function in objectives.items() if function is None]
        if not self._told:
            raise JcwError(f"objectives are {list(objectives)}: none is told; call search instead")
        evaluators = {
            name: _Told() if function is None else Fixed(function, exact=True)
            for name, function in objectives.items()
        }
        self._search = make(algorithm, space, evaluators, **settings)
        self._seed = seed
        self._state: State | None = None
        self._asked: _Asked | None = None

    def __repr__(self) -> str:
        return f"<AskTell of {self._search!r}; {', '.join(self._told)} told>"

    @property
    def is_done(self) -> bool:
        """True when there is nothing left to ask for."""
        return self._state is not None and self._search.is_done(self._state)

    def ask(self) -> Population:
        """What to evaluate next, (n, dimensions): asked again before ``tell``, it is the same.

        It is empty when the search is done, or the space has no more.
        """
        if self._asked is None:
            self._asked = self._next()
        return self._asked.rows

    def tell(self, objectives: Any) -> None:
        """Say what the architectures asked for are worth.

        Args:
            objectives: (n, told objectives) in the order of their names, or (n,) where one is told; NaN
                for a failure.

        Raises:
            JcwError: nothing was asked for, or an array of another shape.
        """
        if self._asked is None:
            raise JcwError("tell: nothing was asked for; call ask first")
        rows, rng = self._asked.rows, self._asked.rng
        told = np.array(objectives, dtype=np.float64)
        told = told[:, None] if told.ndim == 1 else told
        if told.shape != (len(rows), len(self._told)):
            raise JcwError(
                f"tell: objectives of shape {told.shape}, expected ({len(rows)}, {len(self._told)}) for {self._told}"
            )
        values = self._values(rows, told)
        if self._state is None:
            self._state = self._search.begin(rows, values)
        elif len(rows):
            self._state = self._search.absorb(self._state, rows, values, rng)
        self._asked = None

    def result(self) -> SearchResult:
        """What was found so far. Raises ``JcwError`` before the first ``tell``."""
        if self._state is None:
            raise JcwError("result: nothing was told yet; call ask, then tell")
        return SearchResult.of(self._search, self._state)

    def _next(self) -> _Asked:
        generation = 0 if self._state is None else self._state.generation + 1
        rng = np.random.default_rng([self._seed, generation])
        if self._state is None:
            return _Asked(self._search.first(rng), rng)
        while not self._search.is_done(self._state):
            rows = self._search.propose(self._state, rng)
            if len(rows):
                return _Asked(rows, rng)
            self._state = self._search.passed(self._state)
            rng = np.random.default_rng([self._seed, self._state.generation + 1])
        return _Asked(self._state.values[:0], rng)

    def _values(self, rows: Population, told: Floats) -> Floats:
        """All objectives (n, m), NaN where they are not finite."""
        exact = {n: one for n, one in self._search.evaluators.items() if n not in self._told}
        known = dict(zip(self._told, np.where(np.isfinite(told), told, np.nan).T, strict=True))
        if exact:
            found = evaluate(self._search.space, exact, rows, max(1, len(rows)))
            known |= dict(zip(exact, found.T, strict=True))
        return np.stack([known[name] for name in self._search.evaluators], axis=1)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked for, and the random numbers with which the generation goes on."""

    rows: Population
    rng: np.random.Generator


class _Told:
    """An objective that its user evaluates."""

    def begin_generation(self, population: Population, generation: int) -> bool:
        """Nothing to prepare."""
        return False

    def evaluate(self, space: SearchSpace, population: Population) -> Floats:
        """Never called: its values are told."""
        raise NotImplementedError
