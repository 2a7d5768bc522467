"""What a search works with: evaluators of its objectives, and the strategy that selects a population."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from jcw_core.space.space import Population, SearchSpace


class Evaluator(Protocol):
    """An objective that has its data at hand."""

    def begin_generation(self, population: Population, generation: int) -> bool:
        """Called before the first evaluation (generation 0) and before those of each later generation.

        Args:
            population: values (n, dimensions) of all that the generation compares: parents and their
                children, or in generation 0 the first architectures.
            generation: its number.

        Returns:
            True when values given earlier no longer hold and the parents must be evaluated again.
        """

    def evaluate(self, space: SearchSpace, population: Population) -> NDArray[np.float64]:
        """One value per architecture, (n,); smaller is better. Raises ``JcwError``."""


@runtime_checkable
class Exact(Protocol):
    """What an ``Evaluator`` may have besides: ``exact = True`` where values cost next to nothing, are
    free of noise and never grow stale.

    The search may then ask for the values of many more architectures than it reports, and of ones
    that no generation was announced with.
    """

    @property
    def exact(self) -> bool:
        """True where the values are exact and cheap."""


@runtime_checkable
class Reevaluating(Protocol):
    """What an ``Evaluator`` may have besides: values that no search has seen, for what it reports."""

    def reevaluate(self, space: SearchSpace, population: Population) -> NDArray[np.float64]:
        """Like ``evaluate``, but on data that ``evaluate`` never used, (n,).

        Called at the end, after ``begin_generation`` with the same population and the number after the last: once for
        the front, then for uniform architectures beside it. A run that was resumed then asks an evaluator of its own.
        """


class Selection(Protocol):
    """A strategy that chooses the next population."""

    @property
    def name(self) -> str:
        """What recipes call it."""

    def select(
        self,
        objectives: NDArray[np.float64],
        size: int,
        rng: np.random.Generator,
        *,
        limits: NDArray[np.float64],
    ) -> NDArray[np.intp]:
        """Choose survivors.

        Args:
            objectives: (n, objectives); latency first, smaller is better.
            size: how many to choose, at most n.
            rng: the only source of randomness.
            limits: (2, objectives); row 0 the values of the smallest architecture that the search
                can reach as it stands, row 1 those of the largest.

        Returns:
            ``size`` different indices into ``objectives``.
        """
