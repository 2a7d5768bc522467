"""The recipe table ``[search]``."""

from __future__ import annotations

from dataclasses import dataclass

from jcw_core.errors import RecipeError
from jcw_core.options import option
from jcw_search.phases import Variant


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """``[search]``: how to search."""

    population: int = option(64, low=4, high=100_000, help="architectures that survive a generation")
    generations: int = option(
        128, low=1, high=1_000_000, help="generations after the random first population"
    )
    selection: str = option("uniform", help="name of a registered selection strategy")
    targets: int | None = option(None, low=2, help="latencies that uniform selection aims at, 4 by default")
    variant: Variant = option("joint", help="joint, channels, weights or sequential")
    objectives: tuple[str, ...] = option(("latency", "error"), help="what to minimise, latency first")
    mu_c: float = option(0.5, low=0, high=1000, help="crossover: larger keeps children closer to parents")
    mu_m: float = option(15.0, low=0, high=1000, help="mutation: larger gives smaller steps")
    mutation: float = option(0.1, low=0, high=1, help="probability of mutating a dimension")

    def __post_init__(self) -> None:
        if len(self.objectives) < 2 or self.objectives[0] != "latency":
            raise RecipeError(
                f'objectives = {list(self.objectives)}: give "latency" first and at least one more'
            )
        if len(set(self.objectives)) != len(self.objectives):
            raise RecipeError(f"objectives = {list(self.objectives)}: one stands there twice")
        if self.variant == "sequential" and self.generations < 2:
            raise RecipeError("generations = 1: the sequential variant needs at least 2")
