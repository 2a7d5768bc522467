"""Weight groups and their masks on torch tensors, as ``jcw_core.network.weight_groups`` has them for numpy."""

from __future__ import annotations

import numpy as np
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
    """Mask of the ``density`` share of weight groups that are strongest; ties go to the first.

    Returns:
        ones and zeros in the shape and type of ``weight``; the same groups as ``jcw_core.network.weight_groups.density_mask``
        keeps.
    """
    powers = group_powers(weight, order)
    kept = _strongest(powers, kept_groups(density, powers.numel())).to(weight.dtype)
    return kept.unsqueeze(1).expand(-1, GROUP_SIZE, *kept.shape[1:]).flatten(0, 1)[: len(weight)]


def _strongest(powers: Tensor, count: int) -> Tensor:
    """Booleans, True at so many of the largest values."""
    if count == 0:
        return torch.zeros_like(powers, dtype=torch.bool)
    least = _smallest_of_largest(powers, count)
    kept = powers >= least
    if (surplus := int(kept.count_nonzero()) - count) > 0:
        kept.view(-1)[(powers == least).view(-1).nonzero()[-surplus:]] = False
    return kept


def _smallest_of_largest(values: Tensor, count: int) -> Tensor:
    flat, place = values.flatten(), values.numel() - count
    if flat.is_cpu:
        # A selection with vector instructions, several times as fast as torch's.
        return torch.from_numpy(np.partition(flat.numpy(), place)[place : place + 1])
    return flat.kthvalue(place + 1).values
