"""Weight groups and their masks on torch tensors, as ``jcw_core.network.weight_groups`` has them for numpy."""

from __future__ import annotations

import torch
from torch import Tensor

from jcw_core.network.weight_groups import GROUP_SIZE, kept_groups


def group_powers(weight: Tensor, order: int) -> Tensor:
    """How strong each weight group is: the sum of |w| or of w^2 over its values.

    These rank groups as their L1 and L2 norms do, without the square root.

    Args:
        weight: (out_channels, ...).
        order: 1 for |w|, 2 for w^2.

    Returns:
        float64, (ceil(out_channels / 4), ...) with the other axes as they were.
    """
    powers = weight.abs() if order == 1 else weight.double().square()
    whole = len(weight) // GROUP_SIZE * GROUP_SIZE
    sums = powers[:whole].reshape(-1, GROUP_SIZE, *weight.shape[1:]).sum(1, dtype=torch.float64)
    if whole < len(weight):
        sums = torch.cat([sums, powers[whole:].sum(0, keepdim=True, dtype=torch.float64)])
    return sums


@torch.no_grad()
def density_mask(weight: Tensor, density: float, order: int) -> Tensor:
    """Mask of the ``density`` share of weight groups that are strongest.

    Returns:
        ones and zeros in the shape and type of ``weight``; as many as ``jcw_core.network.weight_groups.density_mask``
        keeps, and the same ones where no two groups are equally strong.
    """
    powers = group_powers(weight, order)
    kept = torch.topk(powers.flatten(), kept_groups(density, powers.numel()), sorted=False).indices
    flat = weight.new_zeros(powers.numel())
    flat[kept] = 1
    return flat.view(powers.shape).repeat_interleave(GROUP_SIZE, dim=0)[: len(weight)]
