"""The recipe's ``[latency]`` table."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from jcw_core.errors import RecipeError
from jcw_core.options import option
from jcw_core.shown import call_of

_GRID = ("widths", "densities", "placement")
"""Keys that place the points of full grids."""


@dataclass(frozen=True, slots=True)
class LatencyOptions:
    """``[latency]``: how the latency table is measured and checked."""

    widths: int = option(8, low=1, high=64, help="grid points on each channel axis (N)")
    densities: int = option(10, low=1, high=100, help="grid steps on the density axis (M)")
    placement: Literal["even", "midpoint"] = option(
        "even", help="widths at i/N, or at (i - 1/2)/N for spaces with very narrow layers"
    )
    adaptive: bool = option(
        False,
        help="refine coarse grids where they are wrong, in place of widths, densities and placement",
    )
    adaptive_tolerance: float = option(
        0.05,
        low=0.001,
        high=1.0,
        help="interpolation error at held-out points, as a share of the network's mean layer; for longer layers, "
        "of the geometric mean of both",
    )
    min_rounds: int = option(6, low=1, high=1000, help="times that every point is timed")
    rounds: int = option(30, low=1, high=1000, help="times that an uncertain point is timed at most")
    tolerance: float = option(
        0.02,
        low=0.0,
        high=1.0,
        help="half-width of a median's confidence interval, as a share of the median: it holds the true one in about "
        "80 % of all cases at six rounds, 90 % at thirty",
    )
    busy: float = option(
        0.2, low=0.0, help="timed batches in which a reference layer is this share slower are repeated"
    )
    seconds: float | None = option(
        None,
        low=1.0,
        high=1e6,
        help="time after which a profile ends with what it has, once every point, of coarser grids if need be, has been "
        "timed; by default a quarter of run.time, and without that as long as points need",
    )
    timeout: float = option(
        600.0, low=1.0, high=1e6, help="seconds after which a silent device counts as hung"
    )
    whole_networks: int = option(
        120, low=0, high=1000, help="networks run whole to find what a run costs beyond its layers"
    )
    check_networks: int = option(
        20, low=0, high=10_000, help="random networks run whole to check the prediction"
    )
    check_rounds: int = option(20, low=1, high=1000, help="times that each whole network is run")

    def __post_init__(self) -> None:
        if self.rounds < self.min_rounds:
            raise RecipeError(f"rounds = {self.rounds} is below min_rounds = {self.min_rounds}; raise it")
        given = [f.name for f in fields(self) if f.name in _GRID and getattr(self, f.name) != f.default]
        if self.adaptive and given:
            raise RecipeError(
                f"adaptive grids are placed by what is measured, so {given[0]} = {getattr(self, given[0])} would do "
                "nothing; leave out one of the two"
            )

    def __repr__(self) -> str:
        return call_of(self)
