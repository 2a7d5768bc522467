"""Uniform widths: one factor on the channels of all layers (MobileNets, Howard et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jcw_core.space import Population, SearchSpace
from jcw_rivals.setting import Setting, along, wide

_FACTORS = np.linspace(1, 0.05, 96)


def scaled(space: SearchSpace, factors: Population) -> Population:
    """The network with all widths scaled, each as far as its bounds allow, and all weights kept.

    Args:
        factors: (n,) above 0, at most 1.

    Returns:
        (n, dimensions).
    """
    features = np.where(wide(space), factors[:, None], 1.0)
    return space.decode(features)


@dataclass(frozen=True)
class Uniform:
    """The largest factor within each budget."""

    name: str = "uniform"
    source: str = "Howard et al. 2017, MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications"

    def choose(self, setting: Setting, budgets_ms: Sequence[float]) -> list[Population | None]:
        """One row within each budget."""
        return along(setting, scaled(setting.space, _FACTORS), budgets_ms)
