"""What a rival may ask, and what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import JcwError
from jcw_core.space import Population, SearchSpace

if TYPE_CHECKING:
    from jcw_core.training.batches import Batch, TrainingImages
    from jcw_core.training.module import Slimmable

Floats = NDArray[np.float64]


def nothing_known() -> Mapping[str, Floats]:
    """The saliencies of a setting that has none."""
    raise JcwError("the method needs saliencies of channels, which nothing here computes")


@dataclass(frozen=True)
class Shared:
    """The supernet, for methods that need its gradients.

    Args:
        module: a copy with the shared weights, which the method may train.
        batches: of training images, without end.
    """

    module: Slimmable
    batches: Iterator[Batch]


def endless(images: TrainingImages, batch_size: int, rng: np.random.Generator) -> Iterator[Batch]:
    """Batches of one epoch after another, all of them in an order of its own."""
    while True:
        yield from images.epoch(batch_size, rng)


def nothing_shared() -> Shared:
    """The shared weights of a setting that has none."""
    raise JcwError("the method trains shared weights, which nothing here gives")


@dataclass(frozen=True)
class Setting:
    """The pipeline as a rival sees it.

    Args:
        space: of architectures; a row of a population has their widths and densities.
        latency_ms: of a population (n, dimensions): milliseconds, (n,).
        error: of a population: the share of errors with shared weights, (n,).
        saliencies: by channel group, how much each channel matters, (channels,), in the order of the network.
        shared: a fresh copy of the shared weights.
        evaluations: architectures that a search may evaluate, for all budgets together; what a method whose length
            is free goes by, so that all cost alike.
        seed: of what a method draws at random.
    """

    space: SearchSpace
    latency_ms: Callable[[Population], Floats]
    error: Callable[[Population], Floats]
    saliencies: Callable[[], Mapping[str, Floats]] = nothing_known
    shared: Callable[[], Shared] = nothing_shared
    evaluations: int = 192
    seed: int = 0


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


def asked(setting: Setting, budgets_ms: Sequence[float], varies: NDArray[np.bool_]) -> list[float]:
    """The budgets that leave something to choose: below the whole network, and not below the smallest one.

    Args:
        varies: (dimensions,) True for what the method prunes.
    """
    space = setting.space
    smallest = np.where(varies, space.low, space.maximum)
    least, whole = setting.latency_ms(np.stack([smallest, space.maximum]))
    return sorted({budget for budget in budgets_ms if least <= budget < whole})


def answered(
    setting: Setting, found: Mapping[float, Population], budgets_ms: Sequence[float]
) -> list[Population | None]:
    """What was ``found`` by budget; the whole network where that is fast enough, and None for all other budgets."""
    whole = setting.space.maximum
    ms = setting.latency_ms(whole[None])[0]
    return [whole if ms <= budget else found.get(budget) for budget in budgets_ms]
