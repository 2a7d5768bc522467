"""Which weight groups of a layer stay at a density, and their weights fitted anew to the dense layer's outputs."""

from __future__ import annotations

import torch
from torch import Tensor

from jcw_core.network.weight_groups import kept_groups
from jcw_core.post_training.removal import Removal, damped, grouped_rows, inverse_of

_BYTES = 2**29
"""Most memory for the systems that are solved at a time."""


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
    ranked = torch.where(present, loss, -torch.inf).flatten().argsort(stable=True)
    # What is not there goes before all else, and then as many as the density asks for.
    gone = ranked[: groups * size - kept_groups(density, total)]
    kept = torch.ones(groups * size, dtype=torch.bool)
    kept[gone] = False
    return torch.zeros(groups, size, dtype=torch.bool).scatter_(1, order, kept.view(groups, size))


@torch.no_grad()
def refit(weight: Tensor, gram: Tensor, mask: Tensor) -> Tensor:
    """Weights on ``mask`` alone whose outputs are nearest to those of ``weight``.

    With S what stays and R what goes, that is W_S = H_SS^-1 (H W)_S, or W - W_R (H^-1_RR)^-1 H^-1_R: each group
    solves the smaller of the two systems.

    Args:
        weight: (out, D), dense.
        gram: (D, D) of the dense layer's inputs.
        mask: (ceil(out / 4), D) bool.

    Returns:
        (out, D) float32, zero off the mask.
    """
    system = damped(gram)
    rows = grouped_rows(weight.float())
    few = 2 * mask.sum(1) <= mask.shape[1]
    fitted = torch.empty_like(rows)
    fitted[few] = _solved(system.float(), rows[few] @ system.float(), mask[few])
    if not few.all():
        inverse = inverse_of(system).float()
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
    matrices = matrices * (real[:, :, None] & real[:, None, :])
    matrices.diagonal(dim1=1, dim2=2).add_((~real).float())
    wide = index[:, None].expand(-1, target.shape[1], -1)
    wanted = target.gather(2, wide) * real[:, None]
    solution = torch.cholesky_solve(wanted.mT, torch.linalg.cholesky(matrices)).mT
    return result.scatter_(2, wide, solution * real[:, None])
