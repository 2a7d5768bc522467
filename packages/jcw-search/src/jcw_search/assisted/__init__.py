"""The search by a model of the error: it ranks many architectures, of which few are evaluated."""

from jcw_search.assisted.search import AssistedSearch

__all__ = ["AssistedSearch"]
