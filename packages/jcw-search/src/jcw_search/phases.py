"""Search variants as phases: which dimensions vary, and for how many generations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import JcwError
from jcw_core.space.space import Population, SearchSpace

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

    def restrict(self, values: Population) -> Population:
        """``values`` with every dimension that is not free at its largest."""
        return np.where(self.free, values, self.corners[1])


def phases_of(space: SearchSpace, variant: Variant, generations: int) -> tuple[Phase, ...]:
    """The phases of a variant.

    ``joint`` searches widths and densities at once (JCW in the paper), ``channels`` widths at
    density 1 (CWO), ``weights`` densities at full width (WSO). ``sequential`` (SCW) searches widths
    for the first half of the generations, then densities on the widths that survived.

    Raises:
        JcwError: an unknown variant, one that has nothing to vary in this space, or fewer
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
        raise JcwError(f"unknown variant {variant!r}; there is: {', '.join(get_args(Variant))}")
    masks = free[variant]
    if generations < len(masks):
        raise JcwError(f"generations = {generations}: variant {variant!r} needs at least {len(masks)}")
    corners = space.decode(space.encode(np.stack([space.low, space.high])))
    phases, reached = [], np.zeros_like(widths)
    for index, mask in enumerate(masks, start=1):
        if not (mask & (corners[0] < corners[1])).any():
            raise JcwError(f"variant {variant!r}: the space of {space.network.name} leaves nothing to choose")
        # What an earlier phase varied is inherited, so the corners of the space open up with it.
        reached = reached | mask
        smallest = np.where(reached, corners[0], corners[1])
        phases.append(Phase(generations * index // len(masks), mask, np.stack([smallest, corners[1]])))
    return tuple(phases)
