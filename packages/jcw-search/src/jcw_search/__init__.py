"""Multi-objective search over jointly pruned networks: assisted by models, or the paper's own."""

from importlib.metadata import version

from jcw_search.ask_tell import AskTell
from jcw_search.assisted import AssistedSearch
from jcw_search.constraints import Constraints
from jcw_search.evolution import Evolution
from jcw_search.operators import Variation
from jcw_search.search import Fixed, SearchResult, search
from jcw_search.selection import Nsga2Selection, UniformSelection
from jcw_search.state import State

__version__ = version("jcw-search")

__all__ = [
    "AskTell",
    "AssistedSearch",
    "Constraints",
    "Evolution",
    "Fixed",
    "Nsga2Selection",
    "SearchResult",
    "State",
    "UniformSelection",
    "Variation",
    "search",
]
