"""``Architecture``: how many channels each group keeps and which share of its weights each layer keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jcw_core.errors import ArchitectureError
from jcw_core.frozen import FrozenDict
from jcw_core.shown import count_of


@dataclass(frozen=True, slots=True)
class Architecture:
    """One point (C, S) of the search space, by name.

    Args:
        widths: channels kept, by channel group (C in the paper).
        densities: share of the weight groups kept, by layer, above 0 and at most 1. The paper calls
            it sparsity (S); this project calls it density.

    A group or layer that is absent is kept whole.

    Raises:
        ArchitectureError: a width below 1, a density outside (0, 1], or a value of another type.
    """

    widths: Mapping[str, int]
    densities: Mapping[str, float]

    def __post_init__(self) -> None:
        for group, width in self.widths.items():
            if isinstance(width, bool) or not isinstance(width, int) or width < 1:
                raise ArchitectureError(
                    f"group {group!r}: width is {width!r}, expected a whole number above 0"
                )
        for layer, density in self.densities.items():
            if isinstance(density, bool) or not isinstance(density, (int, float)) or not 0 < density <= 1:
                raise ArchitectureError(
                    f"layer {layer!r}: density is {density!r}, expected above 0 and at most 1"
                )
        object.__setattr__(self, "widths", FrozenDict(self.widths))
        object.__setattr__(self, "densities", FrozenDict(self.densities))

    def __repr__(self) -> str:
        kept = _span("widths", self.widths, "group"), _span("densities", self.densities, "layer")
        return f"<Architecture: {', '.join(kept)}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a JSON file."""
        return {"widths": dict(self.widths), "densities": dict(self.densities)}

    @classmethod
    def from_dict(cls, document: Any) -> Architecture:
        """Read what ``to_dict`` wrote.

        Raises:
            ArchitectureError: the document has another shape, or a value is out of range.
        """
        try:
            widths, densities = dict(document["widths"]), dict(document["densities"])
        except (KeyError, TypeError, ValueError):
            raise ArchitectureError(
                'an architecture is {"widths": {group: channels}, "densities": {layer: share}}, '
                f"found {str(document)[:60]}"
            ) from None
        return cls(widths, densities)


def _span(kind: str, values: Mapping[str, float], unit: str) -> str:
    """How many there are, and from where to where they go."""
    if not values:
        return f"no {kind}"
    low, high = min(values.values()), max(values.values())
    return f"{kind} {low:g} to {high:g} of {count_of(len(values), unit)}"
