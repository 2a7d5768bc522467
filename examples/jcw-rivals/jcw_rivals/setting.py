"""What a rival may ask, and what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import JcwError
from jcw_core.space import Population, SearchSpace

Floats = NDArray[np.float64]


def nothing_known() -> Mapping[str, Floats]:
    """The saliencies of a setting that has none."""
    raise JcwError("the method needs saliencies of channels, which nothing here computes")


@dataclass(frozen=True)
class Setting:
    """The pipeline as a rival sees it.

    Args:
        space: of architectures; a row of a population has their widths and densities.
        latency_ms: of a population (n, dimensions): milliseconds, (n,).
        error: of a population: the share of errors with shared weights, (n,).
        saliencies: by channel group, how much each channel matters, (channels,), in the order of the network.
    """

    space: SearchSpace
    latency_ms: Callable[[Population], Floats]
    error: Callable[[Population], Floats]
    saliencies: Callable[[], Mapping[str, Floats]] = nothing_known


class Rival(Protocol):
    """A method that chooses architectures."""

    @property
    def name(self) -> str:
        """What recipes call it."""

    @property
    def source(self) -> str:
        """The paper."""

    def choose(self, setting: Setting, budgets_ms: Sequence[float]) -> list[Population | None]:
        """One row (dimensions,) within each budget; None where the method has none."""


def along(setting: Setting, path: Population, budgets_ms: Sequence[float]) -> list[Population | None]:
    """The largest step of a path within each budget.

    Args:
        path: (steps, dimensions), from the largest architecture to the smallest.
    """
    latency = setting.latency_ms(path)
    fits = [np.flatnonzero(latency <= budget) for budget in budgets_ms]
    return [path[found[0]] if len(found) else None for found in fits]


def wide(space: SearchSpace) -> NDArray[np.bool_]:
    """(dimensions,) True for widths that may vary."""
    varies: NDArray[np.bool_] = space.is_width & (space.low < space.high)
    return varies
