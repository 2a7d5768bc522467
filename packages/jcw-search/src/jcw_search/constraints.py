"""Constraints: what an architecture may cost at most, and the window that its latency must lie in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from jcw_core.space.costs import macs, model_bytes, weights
from jcw_core.space.space import Population, SearchSpace
from jcw_search.errors import SettingError
from jcw_search.pareto import Floats

Cost = Callable[[SearchSpace, Population], Floats]

_STEPS = 12
"""Bisections of the way to the smallest or largest architecture, in steps of which all spaces are coarser."""

_COSTS: Mapping[str, Cost] = {"max_weights": weights, "max_macs": macs, "max_bytes": model_bytes}


@dataclass(frozen=True, slots=True)
class Constraints:
    """What every architecture of a search must meet; None where anything goes.

    Args:
        min_latency_ms, max_latency_ms: the window of the first objective.
        max_weights: kept weights of convolutions and linear layers.
        max_macs: multiply-accumulates for one image.
        max_bytes: of the weights in a model file.

    Raises:
        SettingError: a window that is upside down.
    """

    min_latency_ms: float | None = None
    max_latency_ms: float | None = None
    max_weights: float | None = None
    max_macs: float | None = None
    max_bytes: float | None = None

    def __post_init__(self) -> None:
        low, high = self.min_latency_ms, self.max_latency_ms
        if low is not None and high is not None and low > high:
            raise SettingError(
                "min_latency_ms", f"{low:g} is above max_latency_ms = {high:g}; give at most that"
            )

    @property
    def has_window(self) -> bool:
        """True where the latency matters."""
        return self.min_latency_ms is not None or self.max_latency_ms is not None

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) is not None for f in fields(self))


@dataclass(frozen=True, slots=True)
class Allowed:
    """Constraints with a space and its latency at hand.

    Args:
        constraints: what must be met.
        space: where to search.
        latency: of (space, population), exact and cheap; called only where there is a window.
    """

    constraints: Constraints
    space: SearchSpace
    latency: Cost

    def clip(self, latencies: Floats) -> Floats:
        """Latencies no further out than the window."""
        low, high = self.constraints.min_latency_ms, self.constraints.max_latency_ms
        return latencies if low is None and high is None else np.clip(latencies, low, high)

    def mask(self, rows: Population) -> NDArray[np.bool_]:
        """True for the architectures that meet everything, (n,)."""
        return ~self._too_large(rows) & ~self._too_small(rows)

    def within(self, rows: Population, smallest: Population, largest: Population) -> Population:
        """The architectures that meet everything, each drawn towards ``smallest`` or ``largest`` until it does.

        Those that cannot be made to, are left out.
        """
        if not self.constraints or not len(rows):
            return rows
        rows = self._moved(rows, smallest, self._too_large)
        if self.constraints.min_latency_ms is not None:
            rows = self._moved(rows, largest, self._too_small)
        return rows[self.mask(rows)]

    def check(self, smallest: Population, largest: Population) -> None:
        """Refuse what no architecture between ``smallest`` and ``largest``, each (dimensions,), can meet.

        Raises:
            SettingError: names the key and the nearest value that can be met.
        """
        for key, (limit, cost) in self._upper().items():
            least = float(cost(self.space, smallest[None])[0])
            if least > limit:
                raise SettingError(
                    key, f"no architecture of this space is within {limit:g}; give at least {_up(least)}"
                )
        if (wanted := self.constraints.min_latency_ms) is not None:
            most = float(self.latency(self.space, largest[None])[0])
            if most < wanted:
                raise SettingError(
                    "min_latency_ms",
                    f"no architecture of this space takes {wanted:g} ms; give at most {_down(most)}",
                )

    def impossible(self, rows: Population, smallest: Population) -> SettingError:
        """The error for constraints that none of many random ``rows`` meets all at once."""
        least = self.constraints.min_latency_ms
        rows = self._moved(rows, smallest, self._too_large)
        rows = rows[~self._too_large(rows)]
        if least is None or not len(rows):
            key = next(iter(self._upper()))
            return SettingError(key, "no architecture was found that meets all constraints; give more")
        latency = self.latency(self.space, rows)
        nearest = float(latency[np.abs(latency - least).argmin()])
        return SettingError(
            "min_latency_ms",
            f"no architecture was found that takes {least:g} ms within the other constraints; "
            f"the nearest takes {_down(nearest)}, give at most that",
        )

    def _upper(self) -> dict[str, tuple[float, Cost]]:
        found = {key: (getattr(self.constraints, key), cost) for key, cost in _COSTS.items()}
        found["max_latency_ms"] = (self.constraints.max_latency_ms, self.latency)
        return {key: pair for key, pair in found.items() if pair[0] is not None}

    def _too_large(self, rows: Population) -> NDArray[np.bool_]:
        large = np.zeros(len(rows), dtype=bool)
        for limit, cost in self._upper().values():
            large |= cost(self.space, rows) > limit
        return large

    def _too_small(self, rows: Population) -> NDArray[np.bool_]:
        least = self.constraints.min_latency_ms
        return np.zeros(len(rows), dtype=bool) if least is None else self.latency(self.space, rows) < least

    def _moved(
        self, rows: Population, goal: Population, is_wrong: Callable[[Population], NDArray[np.bool_]]
    ) -> Population:
        """Each wrong row on its way to ``goal``, as far as it must go."""
        wrong = np.flatnonzero(is_wrong(rows))
        start, end = self.space.encode(rows[wrong]), self.space.encode(goal)
        near, far = np.zeros((len(wrong), 1)), np.ones((len(wrong), 1))
        for _ in range(_STEPS if len(wrong) else 0):
            middle = (near + far) / 2
            still = is_wrong(self.space.decode(start + middle * (end - start)))[:, None]
            near, far = np.where(still, middle, near), np.where(still, far, middle)
        moved = rows.copy()
        moved[wrong] = self.space.decode(start + far * (end - start))
        return moved


def _up(value: float) -> str:
    """``value`` with four digits, rounded up."""
    return _rounded(value, np.ceil)


def _down(value: float) -> str:
    """``value`` with four digits, rounded down."""
    return _rounded(value, np.floor)


def _rounded(value: float, towards: Callable[[float], float]) -> str:
    if value <= 0:
        return f"{value:g}"
    digit = 10.0 ** (np.floor(np.log10(value)) - 3)
    return f"{towards(value / digit) * digit:.10g}"
