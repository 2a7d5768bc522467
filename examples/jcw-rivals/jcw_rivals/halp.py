"""HALP (Shen et al. 2022): a knapsack over channels, worth by saliency and weighed by latency.

Faithful: a channel's worth is the first-order Taylor saliency of its batch norm; channels of a layer are taken in the
order of their worth; a channel weighs what it adds to the latency that was measured of its layer; an exact solver fills
the knapsack; pruning goes to the budget in several steps, after each of which weights are looked up for what is left.
Left out: the fine-tuning between those steps, as models are trained after all methods alike, and the masks that say
which channels these are: as with all methods, a model begins with the first so many of the supernet's, which were trained to
stand alone. Layers whose channels must be equal are one item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jcw_core.space import Population
from jcw_rivals.setting import Floats, Setting, wide

_CELLS = 2000
"""Slots of the knapsack: a latency is rounded up to one of them."""


@dataclass(frozen=True)
class Halp:
    """The knapsack.

    Args:
        steps: in how many steps the latency falls to a budget.
    """

    steps: int = 8
    name: str = "halp"
    source: str = "Shen et al. 2022, Structural Pruning via Latency-Saliency Knapsack"

    def choose(self, setting: Setting, budgets_ms: Sequence[float]) -> list[Population | None]:
        """One row within each budget."""
        saliencies = setting.saliencies()
        return [self._within(setting, saliencies, budget) for budget in budgets_ms]

    def _within(
        self, setting: Setting, saliencies: Mapping[str, Floats], budget_ms: float
    ) -> Population | None:
        space, row = setting.space, setting.space.maximum
        whole, least = setting.latency_ms(np.stack([row, np.where(wide(space), space.low, row)]))
        if whole <= budget_ms:
            return row
        if least > budget_ms:
            return None
        for share in np.arange(1, self.steps + 1) / self.steps:
            row = _filled(setting, saliencies, row, whole + share * (budget_ms - whole))
        # Latency adds up but for what neighbours do to each other, so the last step may miss by a little.
        for slack in np.linspace(0, 0.3, 31):
            if setting.latency_ms(row[None])[0] <= budget_ms:
                return row
            row = _filled(setting, saliencies, row, budget_ms * (1 - slack))
        return None


def _filled(
    setting: Setting, saliencies: Mapping[str, Floats], row: Population, budget_ms: float
) -> Population:
    """The worthiest widths, none above those of ``row``, whose latencies add up to the budget."""
    space, now = setting.space, float(setting.latency_ms(row[None])[0])
    columns = np.flatnonzero(wide(space))
    options = [np.arange(space.low[c], row[c] + 0.5, space.step[c]) for c in columns]
    options = [np.unique(np.append(widths, row[c])) for widths, c in zip(options, columns, strict=True)]
    saved = [_saved(setting, row, c, widths, now) for c, widths in zip(columns, options, strict=True)]
    worth = [
        np.cumsum(np.sort(saliencies[space.variables[c].name])[::-1])[widths.astype(int) - 1]
        for c, widths in zip(columns, options, strict=True)
    ]
    chosen = knapsack(
        worth, [s.max() - s for s in saved], budget_ms - now + sum(float(s.max()) for s in saved)
    )
    found = row.copy()
    for column, widths, index in zip(columns, options, chosen, strict=True):
        found[column] = widths[index]
    return found


def _saved(setting: Setting, row: Population, column: np.intp, widths: Floats, now: float) -> Floats:
    """(widths,) milliseconds by which the network is faster with each of a group's widths, all others as they are."""
    rows = np.repeat(row[None], len(widths), axis=0)
    rows[:, column] = widths
    saved: Floats = np.maximum(now - setting.latency_ms(rows), 0)
    return saved


def knapsack(worth: Sequence[Floats], weight: Sequence[Floats], capacity: float) -> list[int]:
    """One option of each item so that the worth is the most that weighs no more than ``capacity``.

    Args:
        worth, weight: of each item's options, (options,), at least 0.

    Returns:
        an option for each item; the lightest ones where nothing fits.
    """
    if capacity <= sum(float(w.min()) for w in weight):
        return [int(np.lexsort((-v, w))[0]) for v, w in zip(worth, weight, strict=True)]
    cell = capacity / _CELLS
    best = np.zeros(_CELLS + 1)
    taken: list[np.ndarray] = []
    for values, weights in zip(worth, weight, strict=True):
        slots = np.ceil(weights / cell - 1e-9).astype(int)
        reached = np.full((len(values), _CELLS + 1), -np.inf)
        for option, (value, slot) in enumerate(zip(values, slots, strict=True)):
            if slot <= _CELLS:
                reached[option, slot:] = best[: _CELLS + 1 - slot] + value
        taken.append(reached.argmax(axis=0))
        best = reached.max(axis=0)
    chosen, left = [], _CELLS
    if not np.isfinite(best[left]):
        return [int(np.lexsort((-v, w))[0]) for v, w in zip(worth, weight, strict=True)]
    for options, weights in zip(reversed(taken), reversed(weight), strict=True):
        option = int(options[left])
        chosen.append(option)
        left -= int(np.ceil(weights[option] / cell - 1e-9))
    return chosen[::-1]
