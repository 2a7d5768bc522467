"""``Bound``: the least that some layers may keep."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jcw_core.errors import ArchitectureError
from jcw_core.network.graph import Network
from jcw_core.space.whole import fixed_layers, layers_of, unpruned_layers


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


def check_bounds(network: Network, bounds: Sequence[Bound], step: int) -> None:
    """Check that each bound does something.

    Args:
        network: at full width.
        bounds: those that somebody asked for.
        step: widths are multiples of this many channels.

    Raises:
        BoundError: a bound matches no layer, or has a width or density below 1 for layers that all stay whole.
    """
    layers = layers_of(network)
    whole = {"width": fixed_layers(network, step), "density": unpruned_layers(network)}
    for bound in bounds:
        named = [layer for layer in layers if matches(bound, layer)]
        if not named:
            raise BoundError(bound, "layers", f"bound {bound.layers!r} matches no layer of {network.name}")
        for key, reasons in whole.items():
            if getattr(bound, key) < 1 and reasons.keys() >= set(named):
                raise BoundError(bound, key, _does_nothing(bound, key, named, reasons))


def _does_nothing(bound: Bound, key: str, layers: Sequence[str], reasons: Mapping[str, str]) -> str:
    kept = {"width": "channels", "density": "weights"}[key]
    first = f"{layers[0]!r} {reasons[layers[0]]}"
    why = (
        f"{first} and keeps all its {kept}"
        if len(layers) == 1
        else f"each of the {len(layers)} layers that it matches keeps all its {kept} ({first}, for one)"
    )
    return f"{key} = {getattr(bound, key):g} of bound {bound.layers!r} does nothing: {why}; give {key} = 1"
