"""DMCP (Guo et al. 2020): widths are Markov chains whose probabilities are learned by gradients, to an expected budget.

Faithful: the chains and their marginal probabilities, which multiply the channels of the whole network, so that the
task's loss reaches them; the budget's part of the loss, a logarithm of how far the expected cost is away; weights and
chains that are trained in turn; weights by the sandwich of the largest, the smallest, a random network and one that is
drawn from the chains, all of which the largest teaches; the expected widths as the result. Here the cost is the latency
table, taken to be linear around the expected widths, with slopes from one step of channels to either side. Training begins
with the supernet's weights, which stand for the paper's first stage, and is as short as the other searches: as many steps for
all budgets together as those evaluate architectures, each of a forward and backward pass of five networks on one batch.
After so few the expected latency is near the budget rather than at it, so that one number is added to all logits by which
the expected widths are the largest within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from torch import Tensor

from jcw_core.space import Population, SearchSpace
from jcw_core.training.batches import Batch
from jcw_core.training.execution import BatchNorm, execute
from jcw_core.training.module import Slimmable
from jcw_core.training.optimizer import sgd
from jcw_core.training.options import TrainingOptions
from jcw_rivals.chain import Chains, scaled
from jcw_rivals.setting import Setting, along, answered, asked, wide

_SHIFTS = np.linspace(12, -12, 961)
"""Added to logits in the end: probabilities from all 1 to all 0."""

_BELOW = 0.95
"""An expected latency between this share of the budget and the budget is as wanted."""


@dataclass(frozen=True)
class Dmcp:
    """Differentiable widths.

    Args:
        parts: of a layer's channels, in which they are kept or cut; 10 in the paper.
        logit: of the probability that a part stays, to begin with.
        strength: of the budget in the loss, 0.1 in the paper.
        chain_lr: learning rate of the chains, by Adam.
        lr: of the weights, by SGD; low, as they come from a training that has ended.
    """

    parts: int = 10
    logit: float = 3.0
    strength: float = 0.1
    chain_lr: float = 0.1
    lr: float = 0.01
    name: str = "dmcp"
    source: str = "Guo et al. 2020, DMCP: Differentiable Markov Channel Pruning for Neural Networks"

    def choose(self, setting: Setting, budgets_ms: Sequence[float]) -> list[Population | None]:
        """One row within each budget, for each of which chains and weights are trained anew."""
        wanted = asked(setting, budgets_ms, wide(setting.space))
        steps = max(1, setting.evaluations // max(1, len(wanted)))
        found = {budget: self._within(setting, budget, steps) for budget in wanted}
        return answered(setting, found, budgets_ms)

    def _within(self, setting: Setting, budget_ms: float, steps: int) -> Population:
        chains = self.trained(setting, budget_ms, steps)
        with torch.no_grad():
            path = np.stack([chains.row(chains.widths(shift)) for shift in _SHIFTS])
        (row,) = along(setting, path, [budget_ms])
        assert row is not None, "the last of the path is the smallest network, which fits"
        return row

    def trained(self, setting: Setting, budget_ms: float, steps: int) -> Chains:
        """Chains after some steps, each of which trains the weights and then the chains."""
        rng, shared = np.random.default_rng(setting.seed), setting.shared()
        chains = Chains(setting.space, self.parts, self.logit)
        by_sgd = sgd(shared.module, TrainingOptions(1, 1, self.lr))
        by_adam = torch.optim.Adam(chains.logits, self.chain_lr)
        shared.module.train()
        for _ in range(steps):
            batch = next(shared.batches)
            by_sgd.zero_grad()
            _sandwich(shared.module, setting.space, batch, [_random(setting.space, rng), chains.draw(rng)])
            by_sgd.step()
            by_adam.zero_grad()
            cost = penalty(expected_ms(setting, chains), budget_ms)
            loss = _task_loss(shared.module, chains, batch) + self.strength * cost
            loss.backward()  # type: ignore[no-untyped-call]
            by_adam.step()
        return chains


def expected_ms(setting: Setting, chains: Chains) -> Tensor:
    """Milliseconds at the expected widths, a scalar: those of the nearest row, and linear from there."""
    space, widths = setting.space, chains.widths()
    row, columns = chains.row(widths), chains.columns
    around = np.repeat(row[None], 2 * len(columns), axis=0).reshape(2, len(columns), -1)
    index = np.arange(len(columns))
    around[0, index, columns] = np.maximum(row - space.step, space.low)[columns]
    around[1, index, columns] = np.minimum(row + space.step, space.high)[columns]
    at, *ms = setting.latency_ms(np.concatenate([row[None], *around]))
    below, above = np.reshape(ms, (2, -1))
    slopes = (above - below) / (around[1, index, columns] - around[0, index, columns])
    beyond = widths - torch.from_numpy(row[columns]).float()
    return beyond @ torch.from_numpy(slopes).float() + float(at)


def penalty(expected: Tensor, budget_ms: float) -> Tensor:
    """The budget's part of the loss, a scalar: log |expected / budget - 1|, 0 from 95 % of the budget to all of it.

    Above the budget it is the distance from those 95 % that counts, so that the logarithm stays finite.
    """
    share = expected / budget_ms
    if share < _BELOW:
        return torch.log(1 - share)
    return torch.log(share - _BELOW) if share > 1 else 0 * share


def _task_loss(module: Slimmable, chains: Chains, batch: Batch) -> Tensor:
    """Cross-entropy of the whole network, each channel of which counts as much as it is likely to stay."""
    images, labels = batch
    logits = execute(module.network, scaled(module, chains.scales()), images, BatchNorm())
    return F.cross_entropy(logits.float(), labels)


def _sandwich(module: Slimmable, space: SearchSpace, batch: Batch, rows: Sequence[Population]) -> None:
    """Gradients of the largest network, which learns from the labels, and of all others, which learn from it."""
    images, target = batch
    smallest = np.where(space.is_width, space.low, space.maximum)
    for row in (space.maximum, smallest, *rows):
        logits = module(images, space.architecture(row))
        loss = F.cross_entropy(logits.float(), target)
        loss.backward()  # type: ignore[no-untyped-call]
        if row is space.maximum:
            target = logits.detach().float().softmax(1)


def _random(space: SearchSpace, rng: np.random.Generator) -> Population:
    drawn: Population = space.sample(1, rng, wide(space))[0]
    return drawn
