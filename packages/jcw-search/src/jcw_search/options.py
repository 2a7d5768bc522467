"""The recipe table ``[search]``."""

from __future__ import annotations

from dataclasses import dataclass

from jcw_core.errors import RecipeError
from jcw_core.options import option
from jcw_search.algorithms import Algorithm
from jcw_search.constraints import Constraints
from jcw_search.errors import SettingError
from jcw_search.phases import Variant

_PLAIN = ("selection", "targets", "mu_c", "mu_m", "mutation")
"""Keys of the plain search alone."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """``[search]``: how to search."""

    algorithm: Algorithm = option(
        "assisted",
        help="assisted: a model of the error ranks what is evaluated; plain: algorithm 1 of the paper",
    )
    population: int = option(
        64, low=4, high=100_000, help="architectures that are evaluated in a generation, and that survive it"
    )
    generations: int | None = option(
        None, low=1, high=1_000_000, help="generations after the first population; 12 assisted, 128 plain"
    )
    variant: Variant = option("joint", help="joint, channels, weights or sequential")
    objectives: tuple[str, ...] = option(("latency", "error"), help="what to minimise, latency first")
    min_latency_ms: float | None = option(None, low=0, help="least latency of what is searched")
    max_latency_ms: float | None = option(None, low=0, help="largest latency of what is searched")
    max_weights: float | None = option(
        None, low=1, help="most weights that convolutions and linear layers keep"
    )
    max_macs: float | None = option(None, low=1, help="most multiply-accumulates for one image")
    max_bytes: float | None = option(None, low=1, help="most bytes of the weights in a model file")
    selection: str | None = option(
        None, help="plain: name of a registered selection strategy, uniform by default"
    )
    targets: int | None = option(
        None, low=2, help="plain: latencies that uniform selection aims at, 4 by default"
    )
    mu_c: float | None = option(
        None,
        low=0,
        high=1000,
        help="plain: crossover, larger keeps children closer to parents; 0.5 by default",
    )
    mu_m: float | None = option(
        None, low=0, high=1000, help="plain: mutation, larger gives smaller steps; 15 by default"
    )
    mutation: float | None = option(
        None, low=0, high=1, help="plain: probability of mutating a dimension, 0.1 by default"
    )

    def __post_init__(self) -> None:
        if len(self.objectives) < 2 or self.objectives[0] != "latency":
            raise RecipeError(
                f'objectives = {list(self.objectives)}: give "latency" first and at least one more'
            )
        if len(set(self.objectives)) != len(self.objectives):
            raise RecipeError(f"objectives = {list(self.objectives)}: one stands there twice")
        if self.variant == "sequential" and self.generations == 1:
            raise RecipeError("generations = 1: the sequential variant needs at least 2")
        given = [key for key in _PLAIN if getattr(self, key) is not None]
        if self.algorithm == "assisted" and given:
            raise RecipeError(
                f'{given[0]} is a key of the plain search alone; leave it out, or give algorithm = "plain"'
            )
        try:
            self.constraints  # noqa: B018  a window may be upside down
        except SettingError as error:
            raise RecipeError(str(error)) from None

    @property
    def constraints(self) -> Constraints:
        """What every architecture must meet."""
        return Constraints(
            self.min_latency_ms, self.max_latency_ms, self.max_weights, self.max_macs, self.max_bytes
        )
