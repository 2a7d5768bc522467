"""``Bound``: the least that some layers may keep."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from jcw_core.errors import ArchitectureError


@dataclass(frozen=True, slots=True)
class Bound:
    """The least that layers may keep.

    Args:
        layers: a shell pattern of layer names, e.g. ``"layer4.*"``.
        width: lowest share of the channels, above 0 and at most 1.
        density: lowest share of the weights, above 0 and at most 1.
    """

    layers: str
    width: float
    density: float

    def __post_init__(self) -> None:
        for key in ("width", "density"):
            value = getattr(self, key)
            if not 0 < value <= 1:
                raise ArchitectureError(
                    f"bound for {self.layers!r}: {key} = {value} is impossible; it must be above 0 and at most 1"
                )


class BoundError(ArchitectureError):
    """A bound that does not go with the network.

    Args:
        bound: which one.
        key: which of its fields.
    """

    def __init__(self, bound: Bound, key: str, message: str) -> None:
        super().__init__(message)
        self.bound, self.key = bound, key


def matches(bound: Bound, layer: str) -> bool:
    """True when ``bound`` is for a layer of this name."""
    return fnmatch.fnmatchcase(layer, bound.layers)


def bound_of(layer: str, bounds: Sequence[Bound]) -> Bound | None:
    """The first of ``bounds`` that is for a layer of this name."""
    return next((bound for bound in bounds if matches(bound, layer)), None)
