"""Algorithm 1 of the paper, one generation at a time, as a function from state to state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import JcwError, PluginError
from jcw_core.protocols import Evaluator, Selection
from jcw_core.space.space import Population, SearchSpace
from jcw_search.mating import breed, scatter
from jcw_search.operators import Variation
from jcw_search.pareto import Floats, Indices, hypervolume, non_dominated
from jcw_search.phases import Phase, Variant, phases_of


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """All that the next generation depends on, beside its random numbers.

    Args:
        generation: the last that ended; 0 is the random first population.
        values: (archive, dimensions) every architecture evaluated so far, of those that the variant
            can reach.
        objectives: (archive, objectives) their values, in the order of the evaluators.
        current: (archive,) False where the evaluators have since said that earlier values no
            longer hold.
        population: (population,) indices into the archive.
        limits: (phases + 1, 2, objectives) values of the smallest and largest architecture of each
            phase, then of the space.
        hypervolume: (generations so far + 1,) of the archive's current values.
    """

    generation: int
    values: Population
    objectives: Floats
    current: NDArray[np.bool_]
    population: Indices
    limits: Floats
    hypervolume: Floats

    def __repr__(self) -> str:
        return f"<State of generation {self.generation}: {len(self.values)} evaluated>"

    @property
    def front(self) -> Indices:
        """Indices of the non-dominated architectures among the current values, by rising latency."""
        current = np.flatnonzero(self.current)
        return current[non_dominated(self.objectives[current])]


@dataclass(frozen=True)
class Evolution:
    """A search that is ready to begin.

    Args:
        space: where to search.
        evaluators: by objective name, latency first.
        selection: the strategy that chooses survivors.
        population: how many survive.
        generations: how many follow the first population.
        variant: what varies, see ``jcw_search.phases.phases_of``.
        variation: crossover and mutation.

    Raises:
        JcwError: fewer than two objectives, a population below 4, an impossible variant.
    """

    space: SearchSpace
    evaluators: Mapping[str, Evaluator]
    selection: Selection
    population: int = 64
    generations: int = 128
    variant: Variant = "joint"
    variation: Variation = field(default_factory=Variation)

    def __post_init__(self) -> None:
        if len(self.evaluators) < 2:
            raise JcwError(f"objectives are {list(self.evaluators)}: a search needs latency and one more")
        if self.population < 4:
            raise JcwError(f"population = {self.population}: a search needs at least 4")
        self.phases  # noqa: B018  raises for an impossible variant

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """What varies when."""
        return phases_of(self.space, self.variant, self.generations)

    def start(self, rng: np.random.Generator) -> State:
        """Evaluate the first population, and for the limits the corners of all phases and of the space.

        The archive takes them all, but corners of the space that the variant cannot reach.
        """
        population = self._sample(rng)
        own = np.concatenate([population, *(phase.corners for phase in self.phases)])
        whole = self.space.decode(self.space.encode(np.stack([self.space.low, self.space.high])))
        rows, origin, place = np.unique(
            np.concatenate([own, whole]), axis=0, return_index=True, return_inverse=True
        )
        for evaluator in self.evaluators.values():
            evaluator.begin_generation(rows, 0)
        objectives = self._evaluate(rows)
        archived = origin < len(own)
        return _scored(
            State(
                generation=0,
                values=rows[archived],
                objectives=objectives[archived],
                current=np.ones(archived.sum(), dtype=bool),
                population=np.flatnonzero(origin[archived] < len(population)),
                limits=objectives[place.ravel()[len(population) :]].reshape(-1, 2, objectives.shape[1]),
                hypervolume=np.empty(0),
            )
        )

    def is_done(self, state: State) -> bool:
        """True when no generation is left."""
        return state.generation >= self.generations

    def step(self, state: State, rng: np.random.Generator) -> State:
        """Breed, evaluate, select.

        Where the space has nothing new to give, the rest of the phase is passed over.
        """
        generation = state.generation + 1
        index = next(i for i, phase in enumerate(self.phases) if generation <= phase.last)
        children = self._children(state, index, rng)
        if not len(children):
            return replace(state, generation=self.phases[index].last)
        state = self._refreshed(state, children, generation)
        pool = np.concatenate([state.population, len(state.values) + np.arange(len(children))])
        state = replace(
            state,
            generation=generation,
            values=np.concatenate([state.values, children]),
            objectives=np.concatenate([state.objectives, self._evaluate(children)]),
            current=np.concatenate([state.current, np.ones(len(children), dtype=bool)]),
        )
        chosen = self._select(state.objectives[pool], state.limits[index], rng)
        return _scored(replace(state, population=pool[chosen]))

    def _sample(self, rng: np.random.Generator) -> Population:
        """A first population: the first phase's two corners, and architectures between them."""
        first = self.phases[0]
        between = first.restrict(self.space.sample(self.population - 2, rng))
        return np.unique(np.concatenate([first.corners, between]), axis=0)

    def _children(self, state: State, index: int, rng: np.random.Generator) -> Population:
        parents, free = state.values[state.population], self.phases[index].free
        if index and state.generation == self.phases[index - 1].last:
            return scatter(self.space, parents, state.values, self.population, free, rng)
        return breed(self.space, parents, state.values, self.population, free, self.variation, rng)

    def _refreshed(self, state: State, children: Population, generation: int) -> State:
        """Announce the generation, and evaluate the parents again where an evaluator asks for it."""
        parents = state.values[state.population]
        pool = np.concatenate([parents, children])
        objectives, current = state.objectives.copy(), state.current
        for column, (name, evaluator) in enumerate(self.evaluators.items()):
            if evaluator.begin_generation(pool, generation):
                objectives[state.population, column] = self._value(name, parents)
                current = np.zeros(len(current), dtype=bool)
                current[state.population] = True
        return replace(state, objectives=objectives, current=current)

    def _evaluate(self, rows: Population) -> Floats:
        return np.stack([self._value(name, rows) for name in self.evaluators], axis=1)

    def _value(self, name: str, rows: Population) -> Floats:
        value = np.asarray(self.evaluators[name].evaluate(self.space, rows), dtype=np.float64)
        if value.shape != (len(rows),):
            raise PluginError(
                f"objective {name!r} gave values of shape {value.shape}, expected ({len(rows)},)"
            )
        if not np.isfinite(value).all():
            raise PluginError(
                f"objective {name!r} gave {value[~np.isfinite(value)][0]}; expected finite numbers"
            )
        return value

    def _select(self, objectives: Floats, limits: Floats, rng: np.random.Generator) -> Indices:
        size = min(self.population, len(objectives))
        chosen = np.asarray(self.selection.select(objectives, size, rng, limits=limits))
        if (
            not np.issubdtype(chosen.dtype, np.integer)
            or len(set(chosen.tolist())) != size
            or chosen.shape != (size,)
            or not ((chosen >= 0) & (chosen < len(objectives))).all()
        ):
            raise PluginError(
                f"selection strategy {self.selection.name!r} gave {chosen.dtype} {chosen.shape}, expected "
                f"{size} different indices below {len(objectives)}"
            )
        return chosen.astype(np.intp)


def _scored(state: State) -> State:
    """``state`` with the hypervolume of its front appended."""
    volume = hypervolume(state.objectives[state.front], state.limits[-1])
    return replace(state, hypervolume=np.append(state.hypervolume, volume))
