"""Multi-objective evolutionary search over jointly pruned networks."""

from jcw_search.evolution import Evolution, State
from jcw_search.operators import Variation
from jcw_search.search import Fixed, SearchResult, search
from jcw_search.selection import Nsga2Selection, UniformSelection

__all__ = [
    "Evolution",
    "Fixed",
    "Nsga2Selection",
    "SearchResult",
    "State",
    "UniformSelection",
    "Variation",
    "search",
]
