"""``search``: the whole search as one call, without a recipe or a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jcw_core.network.architecture import Architecture
from jcw_core.protocols import Evaluator, Selection
from jcw_core.space.space import Population, SearchSpace
from jcw_search.evolution import Evolution, State
from jcw_search.operators import Variation
from jcw_search.pareto import Floats, Indices
from jcw_search.phases import Variant
from jcw_search.selection import UniformSelection


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """What a search found.

    Args:
        space: where it searched.
        names: of the objectives, in the order of their columns.
        values: (evaluated, dimensions) every architecture that was evaluated.
        objectives: (evaluated, objectives).
        front: indices of the non-dominated ones, by rising latency.
        population: indices of the last population.
        hypervolume: one value per generation, that of the random first population first.
    """

    space: SearchSpace
    names: tuple[str, ...]
    values: Population
    objectives: Floats
    front: Indices
    population: Indices
    hypervolume: Floats

    def __repr__(self) -> str:
        return (
            f"<SearchResult of {self.space.network.name!r}: {len(self.front)} on the front of {', '.join(self.names)}, "
            f"{len(self.values)} evaluated>"
        )

    @classmethod
    def of(cls, evolution: Evolution, state: State) -> SearchResult:
        """Read the result off a state."""
        return cls(
            space=evolution.space,
            names=tuple(evolution.evaluators),
            values=state.values,
            objectives=state.objectives,
            front=state.front,
            population=state.population,
            hypervolume=state.hypervolume,
        )

    @property
    def architectures(self) -> list[Architecture]:
        """The architectures of the front, by rising latency."""
        return [self.space.architecture(row) for row in self.values[self.front]]

    @property
    def population_latency(self) -> Floats:
        """First objective of the last population."""
        latency: Floats = self.objectives[self.population, 0]
        return latency


@dataclass(frozen=True, slots=True)
class Fixed:
    """An ``Evaluator`` whose values never grow stale, from a function of (space, population)."""

    function: Callable[[SearchSpace, Population], Any]

    def begin_generation(self, population: Population, generation: int) -> bool:
        """Nothing to prepare."""
        return False

    def evaluate(self, space: SearchSpace, population: Population) -> Floats:
        """Call the function."""
        return np.asarray(self.function(space, population), dtype=np.float64)


def search(
    space: SearchSpace,
    evaluators: Mapping[str, Evaluator],
    *,
    selection: Selection | None = None,
    population: int = 64,
    generations: int = 128,
    variant: Variant = "joint",
    variation: Variation | None = None,
    seed: int = 0,
    callback: Callable[[State], None] = lambda _: None,
) -> SearchResult:
    """Search a space for the architectures that no other beats in all objectives.

    Args:
        space: where to search.
        evaluators: by objective name, latency first; ``Fixed`` makes one of a function.
        selection: ``UniformSelection()`` by default.
        population: architectures that survive a generation.
        generations: how many follow the first population.
        variant: ``"joint"``, ``"channels"``, ``"weights"`` or ``"sequential"``.
        variation: crossover and mutation; the paper's by default.
        seed: the same seed gives the same result.
        callback: called with the state after each generation.

    Raises:
        JcwError: an impossible argument, or an objective or strategy that breaks its protocol.
    """
    evolution = Evolution(
        space,
        evaluators,
        selection or UniformSelection(),
        population=population,
        generations=generations,
        variant=variant,
        variation=variation or Variation(),
    )
    state = evolution.start(np.random.default_rng([seed, 0]))
    callback(state)
    while not evolution.is_done(state):
        state = evolution.step(state, np.random.default_rng([seed, state.generation + 1]))
        callback(state)
    return SearchResult.of(evolution, state)
