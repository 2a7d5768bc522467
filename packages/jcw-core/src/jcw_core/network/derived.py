"""What follows from a network alone: worked out once and kept with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from jcw_core.network.graph import Network

T = TypeVar("T")


def derived(function: Callable[[Network], T]) -> Callable[[Network], T]:
    """Keep what ``function`` returns with the network, for as long as that lives.

    ``functools.lru_cache`` would compare networks node by node wherever an equal one had come first,
    such as one that was read from another file: as often as there are layers, for each layer.
    """

    @wraps(function)
    def kept(network: Network) -> T:
        if function not in network.derived:
            network.derived[function] = function(network)
        found: T = network.derived[function]
        return found

    return kept
