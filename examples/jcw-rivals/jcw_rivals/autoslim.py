"""AutoSlim (Yu and Huang 2019): shared weights tell which layer is slimmed next, until the network is fast enough.

Faithful: from the whole network, each step tries every layer some channels narrower and keeps the one that hurts least.
Here shared weights are those of the pipeline's supernet, the budget is a latency in place of multiply-accumulates, and
layers whose channels must be equal are slimmed together. The paper's own training of the slimmable network, uniform in
its draws per layer, is the pipeline's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jcw_core.space import Population
from jcw_rivals.setting import Setting, along, wide


@dataclass(frozen=True)
class AutoSlim:
    """Greedy slimming.

    Args:
        parts: a step takes this share of a layer's channels, at least one step of the space; 10 in the paper.
    """

    parts: int = 10
    name: str = "autoslim"
    source: str = "Yu and Huang 2019, AutoSlim: Towards One-Shot Architecture Search for Channel Numbers"

    def choose(self, setting: Setting, budgets_ms: Sequence[float]) -> list[Population | None]:
        """One row within each budget, all on one path."""
        path = [setting.space.maximum]
        while setting.latency_ms(path[-1][None])[0] > min(budgets_ms):
            tried = self._narrower(setting, path[-1])
            if not len(tried):
                break
            path.append(tried[self._best(setting, tried)])
        return along(setting, np.stack(path), budgets_ms)

    def _narrower(self, setting: Setting, row: Population) -> Population:
        """(layers, dimensions): each layer that can be is slimmed by one part."""
        space = setting.space
        columns = np.flatnonzero(wide(space) & (row > space.low))
        taken = np.maximum(space.step, np.floor(space.maximum / self.parts / space.step) * space.step)
        rows = np.repeat(row[None], len(columns), axis=0)
        index = np.arange(len(columns))
        rows[index, columns] = np.maximum(rows[index, columns] - taken[columns], space.low[columns])
        return rows

    def _best(self, setting: Setting, rows: Population) -> int:
        """The one with the smallest error; among equals the fastest."""
        return int(np.lexsort((setting.latency_ms(rows), setting.error(rows)))[0])
