"""The search space: widths of channel groups, densities of layers, and the least that each may keep."""

from jcw_core.space.bounds import Bound, BoundError
from jcw_core.space.space import Population, SearchSpace, Variable, is_prunable, prunable_layers
from jcw_core.space.whole import fixed_layers, unpruned_layers

__all__ = [
    "Bound",
    "BoundError",
    "Population",
    "SearchSpace",
    "Variable",
    "fixed_layers",
    "is_prunable",
    "prunable_layers",
    "unpruned_layers",
]
