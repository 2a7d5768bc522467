"""``search``: the whole search as one call, without a recipe or a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jcw_core.frames import data_frame
from jcw_core.network.architecture import Architecture
from jcw_core.protocols import Evaluator, Selection
from jcw_core.shown import html_table
from jcw_core.space.space import Population, SearchSpace
from jcw_search.algorithms import Algorithm, make
from jcw_search.constraints import Constraints
from jcw_search.generations import Generations
from jcw_search.handover import Handover
from jcw_search.operators import Variation
from jcw_search.pareto import Floats, Indices
from jcw_search.phases import Variant
from jcw_search.state import State

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """What a search found.

    Args:
        space: where it searched.
        names: of the objectives, in the order of their columns.
        values: (evaluated, dimensions) every architecture that was evaluated.
        objectives: (evaluated, objectives).
        front: indices of those that it hands over, by rising latency.
        reported: (front, objectives) values of the front: those of ``objectives``, or of an evaluation
            on data that the search did not use, where an evaluator has any.
        population: indices of the last population.
        hypervolume: one value per generation, that of the random first population first.
        failed: (failures, dimensions) what an evaluator had no finite value for.
    """

    space: SearchSpace
    names: tuple[str, ...]
    values: Population
    objectives: Floats
    front: Indices
    reported: Floats
    population: Indices
    hypervolume: Floats
    failed: Population

    def __repr__(self) -> str:
        return (
            f"<SearchResult of {self.space.network.name!r}: {len(self.front)} on the front of {', '.join(self.names)}, "
            f"{len(self.values)} evaluated>"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the front, by rising latency."""
        rows = [
            (row, *(f"{value:.6g}" for value in values), repr(architecture))
            for row, values, architecture in zip(self.front, self.reported, self.architectures, strict=True)
        ]
        return html_table(repr(self), ("row", *self.names, "architecture"), rows)

    def to_dataframe(self) -> pd.DataFrame:
        """A row for each architecture that was evaluated.

        Returns:
            a column for each objective, in its own unit; ``on_front``, True for what is handed over; ``population``, True for
            the last one; then ``width NAME`` in channels and ``density NAME`` as a share, for each variable of the space.

        Raises:
            JcwError: pandas is not installed.
        """
        rows = np.arange(len(self.values))
        variables = enumerate(self.space.variables)
        return data_frame(
            {name: self.objectives[:, column] for column, name in enumerate(self.names)}
            | {"on_front": np.isin(rows, self.front), "population": np.isin(rows, self.population)}
            | {f"{v.kind} {v.name}": self.values[:, column] for column, v in variables}
        )

    @classmethod
    def of(cls, search: Generations, state: State) -> SearchResult:
        """Read the result off a state."""
        found = Handover.of(search, state)
        return cls(
            space=search.space,
            names=tuple(search.evaluators),
            values=state.values,
            objectives=state.objectives,
            front=found.indices,
            reported=found.objectives,
            population=state.population,
            hypervolume=state.hypervolume,
            failed=np.concatenate([state.failed, found.failed]),
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
    """An ``Evaluator`` whose values never grow stale, from a function of (space, population).

    Args:
        function: gives one value per architecture, (n,).
        exact: True where it is cheap and without noise, so that the search may call it far more often
            than it evaluates architectures; see ``jcw_core.protocols.Exact``.
    """

    function: Callable[[SearchSpace, Population], Any]
    exact: bool = False

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
    algorithm: Algorithm = "assisted",
    population: int = 64,
    generations: int | None = None,
    variant: Variant = "joint",
    constraints: Constraints | None = None,
    selection: Selection | None = None,
    variation: Variation | None = None,
    seed: int = 0,
    callback: Callable[[State], None] = lambda _: None,
) -> SearchResult:
    """Search a space for the architectures that no other beats in all objectives.

    Args:
        space: where to search.
        evaluators: by objective name, latency first; ``Fixed`` makes one of a function.
        algorithm: ``"assisted"`` by models of the objectives, or ``"plain"`` as in the paper.
        population: architectures that are evaluated in a generation, and that survive it.
        generations: how many follow the first population; 12 assisted, 128 plain by default.
        variant: ``"joint"``, ``"channels"``, ``"weights"`` or ``"sequential"``.
        constraints: what every architecture must meet.
        selection: of the plain search, ``UniformSelection()`` by default.
        variation: crossover and mutation of the plain search; the paper's by default.
        seed: the same seed gives the same result.
        callback: called with the state after each generation.

    Raises:
        JcwError: an impossible argument, or an objective or strategy that breaks its protocol.
    """
    ready = make(
        algorithm,
        space,
        evaluators,
        population=population,
        generations=generations,
        variant=variant,
        constraints=constraints or Constraints(),
        selection=selection,
        variation=variation,
    )
    state = ready.start(np.random.default_rng([seed, 0]))
    callback(state)
    while not ready.is_done(state):
        state = ready.step(state, np.random.default_rng([seed, state.generation + 1]))
        callback(state)
    return SearchResult.of(ready, state)
