"""A step of training whose batch is spread over several processes, with the numbers that one process would have."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
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
    normalised, mean, variance, count = _Normalised.apply(value, weight, bias, eps, ranks)  # type: ignore[no-untyped-call]
    return normalised, mean, variance * count / (count - 1)


class _Normalised(torch.autograd.Function):
    """Batch norm by torch's own kernels for one process; in between, sums over all processes.

    With x^ the normalised input, dy the gradient of the output and means over the whole batch, the gradient of the input is
    weight / deviation * (dy - mean(dy) - x^ mean(dy x^)) (Ioffe and Szegedy 2015).
    """

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, weight: Tensor, bias: Tensor, eps: float, ranks: Ranks
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mean, variance, count = _statistics(value, weight, bias, eps, ranks)
        statistics = mean.to(weight.dtype), variance.to(weight.dtype)
        ctx.eps, ctx.ranks = eps, ranks
        ctx.save_for_backward(value, weight, *statistics, count)
        ctx.mark_non_differentiable(mean, variance, count)
        return F.batch_norm(value, *statistics, weight, bias, eps=eps), mean, variance, count

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        value, weight, mean, variance, count = ctx.saved_tensors
        wanted = [True, True, True]
        of_value, of_weight, of_bias = torch.ops.aten.native_batch_norm_backward(
            gradient, value, weight, mean, variance, None, None, False, ctx.eps, wanted
        )
        sums = torch.cat([of_weight, of_bias]).double()
        ctx.ranks.add(sums)
        scale = weight * (variance + ctx.eps).rsqrt()
        of_products, of_gradient = (
            scale * means for means in (sums / count).to(scale.dtype).split(len(scale))
        )
        of_value -= F.batch_norm(value, mean, variance, of_products, of_gradient, eps=ctx.eps)
        return of_value, of_weight, of_bias, None, None


def _statistics(
    value: Tensor, weight: Tensor, bias: Tensor, eps: float, ranks: Ranks
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and biased variance (channels,) of the whole batch and the number of its values, in float64."""
    # With weights, which are in float32: without any, statistics of bf16 are themselves rounded to bf16.
    _, mean, inverse = torch.native_batch_norm(value, weight, bias, None, None, True, 0.0, eps)
    number = value.numel() // value.shape[1]
    mean = mean.double()
    squares = (inverse.double().pow(-2) - eps).clamp_min(0) + mean.square()
    sums = torch.cat([number * mean, number * squares, mean.new_tensor([number])])
    ranks.add(sums)
    total, squares, count = sums.split([len(mean), len(mean), 1])  # type: ignore[no-untyped-call]
    mean = total / count
    return mean, (squares / count - mean.square()).clamp_min(0), count
