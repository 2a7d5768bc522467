"""A step of training whose batch is spread over several processes, with the numbers that one process would have."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from jcw_core.ranks import Ranks


def share_gradients(module: nn.Module, ranks: Ranks) -> None:
    """Give every process the gradients of the whole batch: the sum of those of its parts.

    Once a step, when all sub-networks have added theirs. Not ``DistributedDataParallel``, which hooks into each backward
    pass of ``module(...)``: a step has several of these, each through other slices of the parameters, and gradients
    are adjusted after them.

    Args:
        module: whose gradients are those of this process's share of the mean loss.
        ranks: the processes.
    """
    if ranks.size == 1:
        return
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    ranks.add(flat)
    parts = torch.split(flat, [gradient.numel() for gradient in gradients])
    for gradient, summed in zip(gradients, parts, strict=True):
        gradient.copy_(summed.view_as(gradient))


def batch_norm(
    value: Tensor, weight: Tensor, bias: Tensor, eps: float, ranks: Ranks
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise by the statistics of the whole batch, which the gradients go through; gloo has no ``SyncBatchNorm``.

    Args:
        value: (n, channels, ...), this process's part of the batch.
        weight: (channels,).
        bias: likewise.
        eps: added to the variance.
        ranks: the processes.

    Returns:
        the result in the shape and type of ``value``, and mean and unbiased variance (channels,) of the batch.
    """
    number, axes = value.numel() // value.shape[1], [0, *range(2, value.dim())]
    # In float64, as the variance is a difference of sums.
    variance, mean = (found.double() for found in torch.var_mean(value.float(), axes, correction=0))
    sums = torch.cat([number * mean, number * (variance + mean.square()), mean.new_tensor([number])])
    total, squares, count = _Sum.apply(sums, ranks).split([len(mean), len(mean), 1])  # type: ignore[no-untyped-call]
    mean = total / count
    variance = (squares / count - mean.square()).clamp_min(0)
    scale = weight * (variance + eps).rsqrt().to(weight.dtype)
    shape = (1, -1, *[1] * (value.dim() - 2))
    shift = bias - mean.to(weight.dtype) * scale
    normalised = torch.addcmul(shift.view(shape), value.float(), scale.view(shape)).to(value.dtype)
    return normalised, mean.detach(), (variance * count / (count - 1)).detach()


class _Sum(torch.autograd.Function):
    """The sum of a tensor over the processes. The loss is a sum over them as well, so gradients add up in the same way."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return _summed(value, ranks)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _summed(gradient, ctx.ranks), None


def _summed(value: Tensor, ranks: Ranks) -> Tensor:
    found = value.clone(memory_format=torch.contiguous_format)
    ranks.add(found)
    return found
