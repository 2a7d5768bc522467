"""Search variants as phases: which dimensions vary, and for how many generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, prod
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from jcw_core.space.space import Population, SearchSpace, Variable
from jcw_search.errors import SettingError

Variant = Literal["joint", "channels", "weights", "sequential"]


@dataclass(frozen=True, slots=True)
class Phase:
    """A run of generations.

    Args:
        last: its last generation.
        free: (dimensions,) True where architectures vary; the other dimensions are inherited.
        corners: (2, dimensions) the smallest and the largest architecture it can reach.
    """

    last: int
    free: NDArray[np.bool_]
    corners: Population

    def reaches(self, values: Population) -> NDArray[np.bool_]:
        """True for the architectures that differ from the largest only where this phase or one before varies."""
        fixed = self.corners[0] == self.corners[1]
        found: NDArray[np.bool_] = (values == self.corners[1])[:, fixed].all(axis=1)
        return found

    def architectures(self, space: SearchSpace) -> int:
        """How many there are, of those that differ in what is free alone."""
        return prod(_values(v) for v, free in zip(space.variables, self.free, strict=True) if free)


def phases_of(space: SearchSpace, variant: Variant, generations: int) -> tuple[Phase, ...]:
    """The phases of a variant.

    ``joint`` searches widths and densities at once (JCW in the paper), ``channels`` widths at
    density 1 (CWO), ``weights`` densities at full width (WSO). ``sequential`` (SCW) searches widths
    for the first half of the generations, then densities on the widths that survived.

    Raises:
        SettingError: an unknown variant, one that has nothing to vary in this space, or fewer
            generations than phases.
    """
    widths = np.array([v.kind == "width" for v in space.variables], dtype=bool)
    free: dict[str, list[NDArray[np.bool_]]] = {
        "joint": [np.ones_like(widths)],
        "channels": [widths],
        "weights": [~widths],
        "sequential": [widths, ~widths],
    }
    if variant not in free:
        raise SettingError("variant", f"{variant!r} is unknown; there is: {', '.join(get_args(Variant))}")
    masks = free[variant]
    if generations < len(masks):
        raise SettingError(
            "generations", f"{generations} is too few for variant {variant!r}; give at least {len(masks)}"
        )
    corners = space.decode(space.encode(np.stack([space.low, space.high])))
    phases, reached = [], np.zeros_like(widths)
    for index, mask in enumerate(masks, start=1):
        if not (mask & (corners[0] < corners[1])).any():
            raise SettingError("variant", _nothing(space, variant, free, corners))
        # What an earlier phase varied is inherited, so the corners of the space open up with it.
        reached = reached | mask
        smallest = np.where(reached, corners[0], corners[1])
        phases.append(Phase(generations * index // len(masks), mask, np.stack([smallest, corners[1]])))
    return tuple(phases)


def _nothing(
    space: SearchSpace, variant: Variant, free: Mapping[str, list[NDArray[np.bool_]]], corners: Population
) -> str:
    """What to say of a variant that has nothing to vary."""
    varies = corners[0] < corners[1]
    others = [name for name, masks in free.items() if all((mask & varies).any() for mask in masks)]
    hint = f"take {' or '.join(map(repr, others))}" if others else "lower the bounds of [space]"
    return f"{variant!r} finds nothing to choose in the space of {space.network.name}; {hint}"


def _values(variable: Variable) -> int:
    """How many values a variable may take: multiples of its step between its bounds, and the bounds."""
    first, last = variable.low / variable.step, variable.high / variable.step
    inside = ceil(last - 1e-9) - floor(first + 1e-9) - 1
    return 1 if variable.low == variable.high else inside + 2
