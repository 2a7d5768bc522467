"""Which weight groups of a layer stay at a density, and their weights fitted anew to the dense layer's outputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from jcw_core.network.weight_groups import kept_groups
from jcw_core.post_training.removal import Removal, damped, grouped_rows, inverse_of

_BYTES = 2**29
"""Most memory for the systems that are solved at a time."""
_REMEMBERED = 2**30
"""Most memory for inverses that are kept: ResNet-50's take half of it."""


def mask_at(removal: Removal, density: float, inputs: Tensor | None = None) -> Tensor:
    """Which inputs each group of rows keeps.

    Across groups, those go first whose removal costs least; within a group, in its order.

    Args:
        removal: of the layer, or of its first groups.
        density: share of the groups to keep, of those whose input is there.
        inputs: (D,) bool, inputs that are there at all; None for all of them.

    Returns:
        (G, D) bool.
    """
    order, loss = removal.order, removal.loss
    groups, size = order.shape
    there = torch.ones(size, dtype=torch.bool) if inputs is None else inputs
    present = there[order]
    total = int(present.sum())
    # What is not there goes before all else, and then as many as the density asks for.
    cost = torch.where(present, loss, -torch.inf).flatten()
    kept = ~_smallest(cost, groups * size - kept_groups(density, total))
    return torch.zeros(groups, size, dtype=torch.bool).scatter_(1, order, kept.view(groups, size))


def _smallest(values: Tensor, count: int) -> Tensor:
    """Which ``count`` of ``values`` are smallest, the first of equal ones; large layers have too many to be sorted."""
    if count == 0:
        return torch.zeros_like(values, dtype=torch.bool)
    last = values.kthvalue(count).values
    below, level = values < last, values == last
    return below | (level & (level.cumsum(0) <= count - below.sum()))


def damped_inverse(gram: Tensor) -> Tensor:
    """The inverse (D, D) of ``gram``, made regular, in float32."""
    return inverse_of(damped(gram)).float()


class Inverses:
    """Remembers the inverse of each layer, which no architecture changes, as far as memory may be taken for that."""

    def __init__(self) -> None:
        self._found: dict[str, Tensor] = {}

    def of(self, layer: str, gram: Tensor) -> Tensor:
        """``damped_inverse`` of the Gram matrix of a layer."""
        found = self._found.get(layer)
        if found is None:
            found = damped_inverse(gram)
            if sum(4 * kept.numel() for kept in [found, *self._found.copy().values()]) <= _REMEMBERED:
                self._found[layer] = found
        return found


@torch.no_grad()
def refit(
    weight: Tensor,
    gram: Tensor,
    mask: Tensor,
    inverse_of_gram: Callable[[Tensor], Tensor] = damped_inverse,
) -> Tensor:
    """Weights on ``mask`` alone whose outputs are nearest to those of ``weight``.

    With S what stays and R what goes, that is W_S = H_SS^-1 (H W)_S, or W - W_R (H^-1_RR)^-1 H^-1_R: each group
    solves the smaller of the two systems. Inputs that are known not to depend on each other, as of a large layer, have
    nothing to make up for.

    Args:
        weight: (out, D), dense.
        gram: (D, D) of the dense layer's inputs, or its diagonal (D,).
        mask: (ceil(out / 4), D) bool.
        inverse_of_gram: ``damped_inverse``, or what remembers its results.

    Returns:
        (out, D) float32, zero off the mask.
    """
    rows = grouped_rows(weight.float())
    if gram.ndim == 1:
        return (rows * mask[:, None]).flatten(0, 1)[: len(weight)]
    system = damped(gram).float()
    few = 2 * mask.sum(1) <= mask.shape[1]
    fitted = torch.empty_like(rows)
    fitted[few] = _solved(system, rows[few] @ system, mask[few])
    if not few.all():
        inverse = inverse_of_gram(gram)
        kept = mask[~few]
        lost = _solved(inverse, rows[~few], ~kept) @ inverse
        fitted[~few] = (rows[~few] - lost) * kept[:, None]
    return fitted.flatten(0, 1)[: len(weight)]


def _solved(system: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """``system`` (D, D) solved for ``target`` (G, R, D) by each group on its mask (G, D) alone; zero elsewhere."""
    solution = torch.empty_like(target)
    # Those of about one size together, as many as memory has room for.
    for some in torch.split(mask.sum(1).argsort(), max(1, _BYTES // (4 * system.numel()))):
        solution[some] = _solve(system, target[some], mask[some])
    return solution


def _solve(system: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Solve for groups at a time, each on its own inputs, filled up to the most that one has."""
    sizes = mask.sum(1)
    most = int(sizes.max()) if len(sizes) else 0
    result = torch.zeros_like(target)
    if most == 0:
        return result
    # A group's own inputs come first; beyond their number stand others, which are made to count for nothing.
    index = mask.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]
    real = torch.arange(most) < sizes[:, None]
    matrices = system[index[:, :, None], index[:, None, :]]
    least = int(sizes.min())
    matrices[:, least:] *= real[:, least:, None]
    matrices[:, :, least:] *= real[:, None, least:]
    matrices.diagonal(dim1=1, dim2=2).add_((~real).float())
    wide = index[:, None].expand(-1, target.shape[1], -1)
    wanted = target.gather(2, wide) * real[:, None]
    solution = torch.cholesky_solve(wanted.mT, torch.linalg.cholesky(matrices)).mT
    return result.scatter_(2, wide, solution * real[:, None])
