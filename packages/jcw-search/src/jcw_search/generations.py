"""A search one generation at a time, as a function from state to state, whatever proposes and selects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from jcw_core.logs import logger
from jcw_core.protocols import Evaluator
from jcw_core.space.space import Population, SearchSpace
from jcw_search.constraints import Allowed, Constraints
from jcw_search.errors import SettingError
from jcw_search.evaluation import check_first, evaluate, is_exact, value_of
from jcw_search.mating import first_rows
from jcw_search.pareto import Floats, Indices, hypervolume
from jcw_search.phases import Phase, Variant, phases_of
from jcw_search.state import State

_log = logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Generations(ABC):
    """What all algorithms share: phases, the archive, failures, values that grow stale.

    Args:
        space: where to search.
        evaluators: by objective name, latency first.
        population: how many are evaluated in a generation, and how many survive it.
        generations: how many follow the first population.
        variant: what varies, see ``jcw_search.phases.phases_of``.
        constraints: what every architecture must meet.

    Raises:
        JcwError: fewer than two objectives, a population below 4 or above the number of
            architectures, an impossible variant, constraints that nothing can meet.
    """

    algorithm: ClassVar[str]

    space: SearchSpace
    evaluators: Mapping[str, Evaluator]
    population: int = 64
    generations: int = 128
    variant: Variant = "joint"
    constraints: Constraints = field(default_factory=Constraints)

    def __post_init__(self) -> None:
        names = list(self.evaluators)
        if len(names) < 2:
            raise SettingError("objectives", f"{names} is not enough; give latency and at least one more")
        if self.population < 4:
            raise SettingError("population", f"{self.population} is too small; give at least 4")
        if self.population > (most := self.phases[0].architectures(self.space)):
            raise SettingError(
                "population",
                f"{self.population} is more than the {most} architectures that variant {self.variant!r} has "
                f"in the space of {self.space.network.name}; give at most {most}",
            )
        if self.constraints.has_window and not is_exact(self.evaluators[names[0]]):
            key = "min_latency_ms" if self.constraints.max_latency_ms is None else "max_latency_ms"
            raise SettingError(
                key,
                f"a window needs an exact first objective, and {names[0]!r} does not say that it is; leave it out",
            )

    def __repr__(self) -> str:
        names = ", ".join(self.evaluators)
        return (
            f"<{type(self).__name__} of {self.space.network.name!r}: {names}; {self.generations} generations "
            f"of {self.population}, {self.variant}>"
        )

    @property
    @abstractmethod
    def strategy(self) -> str:
        """How survivors are chosen, for people."""

    @abstractmethod
    def children(self, state: State, index: int, rng: np.random.Generator) -> Population:
        """New architectures of phase ``index``, none of them known; empty where the space has no more."""

    @abstractmethod
    def survivors(self, state: State, pool: Indices, index: int, rng: np.random.Generator) -> Indices:
        """Those of ``pool``, indices into the archive, that make the next population."""

    def front(self, state: State) -> tuple[Indices, Floats]:
        """What the search hands over, by rising latency, and the objectives by which it was chosen."""
        return state.front, state.objectives[state.front]

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """What varies when."""
        return phases_of(self.space, self.variant, self.generations)

    @cached_property
    def allowed(self) -> Allowed:
        """The constraints at work."""
        return Allowed(self.constraints, self.space, next(iter(self.evaluators.values())).evaluate)

    def check(self) -> None:
        """Refuse constraints that nothing can meet.

        Raises:
            SettingError: names the key and the nearest value.
        """
        self.allowed.check(*self.phases[0].corners)

    def is_done(self, state: State) -> bool:
        """True when no generation is left."""
        return state.generation >= self.generations

    def start(self, rng: np.random.Generator) -> State:
        """Evaluate the first population, and for the limits the corners of all phases and of the space.

        The archive takes them all, but corners that the variant cannot reach or a constraint forbids.
        """
        rows = self.first(rng)
        for evaluator in self.evaluators.values():
            evaluator.begin_generation(rows, 0)
        return self.begin(rows, evaluate(self.space, self.evaluators, rows, 1))

    def step(self, state: State, rng: np.random.Generator) -> State:
        """Propose, evaluate, select.

        Where the space has nothing new to give, the rest of the phase is passed over.
        """
        children = self.propose(state, rng)
        if not len(children):
            return self.passed(state)
        state = self._refreshed(state, children)
        return self.absorb(
            state, children, evaluate(self.space, self.evaluators, children, self.population), rng
        )

    def first(self, rng: np.random.Generator) -> Population:
        """What the first generation evaluates: (n, dimensions), sorted.

        Raises:
            JcwError: nothing meets the constraints.
        """
        first = self.phases[0]
        self.check()
        found = first_rows(self.space, self.population - 2, first, self.allowed, rng)
        return np.unique(np.concatenate([found, self._corners()]), axis=0)

    def begin(self, rows: Population, objectives: Floats) -> State:
        """The state after the first generation: ``objectives`` (n, m) of ``first``'s rows, NaN for failures.

        Raises:
            JcwError: an objective that is finite for none of them, or the same for all.
        """
        check_first(tuple(self.evaluators), objectives)
        fails = _fails(objectives)
        reached = np.logical_or.reduce([phase.reaches(rows) for phase in self.phases])
        kept = ~fails & reached & self.allowed.mask(rows)
        if not kept.any():
            raise SettingError(
                "objectives",
                f"all that may be chosen of the first {len(rows)} architectures failed; mend them",
            )
        limits = _whole(objectives[[_place(rows, corner) for corner in self._corners()]], objectives)
        return self._scored(
            State(
                generation=0,
                values=rows[kept],
                objectives=objectives[kept],
                current=np.ones(kept.sum(), dtype=bool),
                population=_population(self.phases[0].reaches(rows[kept])),
                limits=limits.reshape(-1, 2, objectives.shape[1]),
                hypervolume=np.empty(0),
                failed=rows[fails],
            )
        )

    def propose(self, state: State, rng: np.random.Generator) -> Population:
        """What the next generation evaluates, (n, dimensions); empty where the phase has no more."""
        return self.children(state, self.phase(state), rng)

    def passed(self, state: State) -> State:
        """The state after the phase whose space has nothing left."""
        return replace(state, generation=self.phases[self.phase(state)].last)

    def absorb(
        self, state: State, children: Population, objectives: Floats, rng: np.random.Generator
    ) -> State:
        """The state after a generation whose children have these ``objectives`` (n, m), NaN for failures."""
        index, fails = self.phase(state), _fails(objectives)
        kept = children[~fails]
        pool = np.concatenate([state.population, len(state.values) + np.arange(len(kept))])
        state = replace(
            state,
            generation=state.generation + 1,
            values=np.concatenate([state.values, kept]),
            objectives=np.concatenate([state.objectives, objectives[~fails]]),
            current=np.concatenate([state.current, np.ones(len(kept), dtype=bool)]),
            failed=np.concatenate([state.failed, children[fails]]),
        )
        return self._scored(replace(state, population=self.survivors(state, pool, index, rng)))

    def phase(self, state: State) -> int:
        """Which phase the next generation belongs to."""
        return next(i for i, phase in enumerate(self.phases) if state.generation < phase.last)

    def window(self, state: State, index: int) -> Floats:
        """Objectives (2, m) of the smallest and largest of a phase, latencies no further out than allowed."""
        limits: Floats = state.limits[index].copy()
        limits[:, 0] = self.allowed.clip(limits[:, 0])
        return limits

    def _corners(self) -> Population:
        """(2 phases + 2, dimensions) smallest and largest of each phase, then of the space."""
        whole = self.space.decode(self.space.encode(np.stack([self.space.low, self.space.high])))
        return np.concatenate([*(phase.corners for phase in self.phases), whole])

    def _refreshed(self, state: State, children: Population) -> State:
        """Announce the generation, and evaluate the parents again where an evaluator asks for it."""
        parents = state.values[state.population]
        pool = np.concatenate([parents, children])
        objectives, current = state.objectives.copy(), state.current
        for column, (name, evaluator) in enumerate(self.evaluators.items()):
            if evaluator.begin_generation(pool, state.generation + 1):
                objectives[state.population, column] = value_of(self.space, name, evaluator, parents, 1)
                current = np.zeros(len(current), dtype=bool)
                current[state.population] = True
        return _without_failures(replace(state, objectives=objectives, current=current), self.evaluators)

    def _scored(self, state: State) -> State:
        """``state`` with the hypervolume of its front appended."""
        volume = hypervolume(state.objectives[state.front], state.limits[-1])
        _log.info(
            "generation %d of %d: %d evaluated, hypervolume %.4g",
            state.generation, self.generations, len(state.values), volume,
        )  # fmt: skip
        return replace(state, hypervolume=np.append(state.hypervolume, volume))


def _without_failures(state: State, names: Mapping[str, Evaluator]) -> State:
    """Drop parents whose new value is none.

    Raises:
        JcwError: none is left.
    """
    fails = _fails(state.objectives)
    if not fails.any():
        return state
    if fails[state.population].all():
        raise SettingError(
            "objectives", f"every parent failed when {list(names)} were evaluated again; mend them"
        )
    kept = np.cumsum(~fails) - 1
    return replace(
        state,
        values=state.values[~fails],
        objectives=state.objectives[~fails],
        current=state.current[~fails],
        population=kept[state.population[~fails[state.population]]],
        failed=np.concatenate([state.failed, state.values[fails]]),
    )


def _fails(objectives: Floats) -> NDArray[np.bool_]:
    """True for architectures (n,) that lack a value."""
    return np.asarray(np.isnan(objectives).any(axis=1))


def _population(reached: NDArray[np.bool_]) -> Indices:
    """The archive's rows that the first phase reaches; all of them where it reaches none that is allowed."""
    return np.flatnonzero(reached if reached.any() else np.ones_like(reached))


def _place(rows: Population, corner: Population) -> int:
    return int(np.flatnonzero((rows == corner).all(axis=1))[0])


def _whole(corners: Floats, objectives: Floats) -> Floats:
    """Corners (2 k, m), where those that failed have the least and the most that was met."""
    least, most = np.nanmin(objectives, axis=0), np.nanmax(objectives, axis=0)
    small, large = most.copy(), least.copy()
    small[0], large[0] = least[0], most[0]
    return np.where(np.isnan(corners), np.tile([small, large], (len(corners) // 2, 1)), corners)
