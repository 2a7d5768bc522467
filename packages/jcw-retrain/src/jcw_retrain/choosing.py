"""Which models of a front are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context

import numpy as np

from jcw_core.errors import FormatError, JcwError
from jcw_core.network.architecture import Architecture
from jcw_core.run.records import Candidate, Front

LATENCY = "latency"

_FOUR_DIGITS = Context(prec=4, rounding=ROUND_CEILING)


@dataclass(frozen=True, slots=True)
class ChosenCandidate:
    """A candidate of the front and the latency that it was chosen for, in ms."""

    candidate: Candidate
    requested_ms: float

    @property
    def architecture(self) -> Architecture:
        """Its architecture."""
        return self.candidate.architecture


def choose(front: Front, models: int, budgets_ms: Sequence[float]) -> list[ChosenCandidate]:
    """Choose by budget where there are budgets, else evenly over the front.

    Args:
        front: found by a search with the objective ``latency``.
        models: how many, spread over the latencies of the front; fewer only when the front has fewer.
        budgets_ms: latencies to stay within.

    Returns:
        different candidates, by rising latency requested. Two budgets with one best model give it
        once, for the smaller of them.

    Raises:
        JcwError: a budget that no candidate meets.
        FormatError: the front is empty, or was found without latency.
    """
    if not front.candidates or not all(LATENCY in c.objectives for c in front.candidates):
        found = "is empty" if not front.candidates else f"has no objective {LATENCY!r}"
        raise FormatError(
            f"the front of {front.network} {found}; search again with {LATENCY!r} among objectives"
        )
    return _within(front, budgets_ms) if budgets_ms else _spread(front, models)


def at_least(value: float) -> str:
    """``value`` above 0 in four digits, rounded up: text for an error that says what would do."""
    return f"{float(_FOUR_DIGITS.create_decimal(value)):.4g}"


def _within(front: Front, budgets_ms: Sequence[float]) -> list[ChosenCandidate]:
    fastest = min(_latency(c) for c in front.candidates)
    chosen: list[ChosenCandidate] = []
    for budget in sorted(budgets_ms):
        fitting = [c for c in front.candidates if _latency(c) <= budget]
        if not fitting:
            raise JcwError(
                f"retrain.budgets_ms: no model runs within {budget:g} ms; the fastest takes {at_least(fastest)} ms, "
                "so ask for at least that or lower the bounds of the space"
            )
        best = min(fitting, key=lambda c: _badness(front, c))
        if all(best is not choice.candidate for choice in chosen):
            chosen.append(ChosenCandidate(best, budget))
    return chosen


def _spread(front: Front, models: int) -> list[ChosenCandidate]:
    """Evenly spaced requests, each served by the best model between the request below and itself.

    A request without a model of its own is filled up with the candidate farthest in latency from
    those chosen, which is asked for what it takes itself.
    """
    latencies = np.array([_latency(c) for c in front.candidates])
    count = min(models, len(latencies))
    requests = np.linspace(latencies.min(), latencies.max(), count) if count > 1 else [latencies.max()]
    served: dict[int, ChosenCandidate] = {}
    for request in map(float, requests):
        below = max((choice.requested_ms for choice in served.values()), default=-np.inf)
        between = [i for i, latency in enumerate(latencies) if below < latency <= request]
        if between:
            best = min(between, key=lambda i: _badness(front, front.candidates[i]))
            served[best] = ChosenCandidate(front.candidates[best], request)
    while len(served) < count:
        distance = np.abs(latencies[:, None] - latencies[list(served)]).min(axis=1)
        distance[list(served)] = -1
        farthest = int(distance.argmax())
        served[farthest] = ChosenCandidate(front.candidates[farthest], float(latencies[farthest]))
    return sorted(served.values(), key=lambda choice: (choice.requested_ms, _latency(choice.candidate)))


def _latency(candidate: Candidate) -> float:
    return candidate.objectives[LATENCY]


def _badness(front: Front, candidate: Candidate) -> tuple[float, float]:
    """Error, or the first objective that is not latency; among equals the faster one is better.

    By what the search chose it, so that what is reported of it stays a value that chose nothing.
    """
    others = [name for name in front.units if name != LATENCY]
    name = "error" if "error" in others else (others or [LATENCY])[0]
    return candidate.estimates.get(name, candidate.objectives[name]), _latency(candidate)
