"""Where architectures lie for a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jcw_core.space.space import Population, SearchSpace
from jcw_search.pareto import Floats


@dataclass(frozen=True, slots=True)
class Positions:
    """What a model knows of an architecture: its variables, and the product of both kinds in each layer.

    A layer's channels times its density are a position of their own, as half the channels with all their
    weights and all channels with half of theirs are often worth about the same. Positions are logarithmic,
    so that equal steps keep equal shares.

    Args:
        space: where architectures come from.
        columns: (dimensions,) True for the variables that vary.
        layers: those whose channels and density both vary.
    """

    space: SearchSpace
    columns: NDArray[np.bool_]
    layers: Sequence[str]

    @classmethod
    def of(cls, space: SearchSpace, columns: NDArray[np.bool_]) -> Positions:
        """Those of architectures that are whole but for ``columns`` (dimensions,)."""
        smallest = np.where(columns, space.low, space.high)[None]
        whole = space.high[None]
        layers = [
            variable.name
            for variable, varies in zip(space.variables, columns, strict=True)
            if varies and variable.kind == "density"
            if space.channels(smallest, variable.name) < space.channels(whole, variable.name)
        ]
        return cls(space, columns, layers)

    def __call__(self, rows: Population) -> Floats:
        """Positions (n, d) in [0, 1] of ``rows`` (n, dimensions)."""
        found = self._numbers(np.concatenate([[self.space.low, self.space.high], rows]))
        return np.asarray((found[2:] - found[0]) / (found[1] - found[0]))

    def _numbers(self, rows: Population) -> Floats:
        """Logarithms of all that has a position, (n, d)."""
        kept = [self.space.channels(rows, name) * self.space.density(rows, name) for name in self.layers]
        return np.asarray(np.log(np.column_stack([rows[:, self.columns], *kept])))
