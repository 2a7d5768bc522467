"""In which order the weight groups of a layer are removed: the optimal brain surgeon on groups of four outputs.

The four rows of a group share a mask and the Gram matrix H = X X^T of the layer's inputs, so one inverse serves
all four, and removing input j from a group costs

    score_j = sum over its rows of w_j^2 / [H^-1]_jj.

The smallest goes, the rows and H^-1 are updated as if it never had been (Hassibi and Stork 1993; layer by layer as in
OBC, Frantar and Alistarh 2022), and so on. Where a layer is large, H is known by its diagonal alone (``has_matrix``):
inputs then count as if they did not depend on each other, so that the order is that of sum of w_j^2 H_jj.

Shapes: G groups, R = 4 rows in each, D inputs, B steps between two updates of the whole inverse.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jcw_core.network.weight_groups import GROUP_SIZE

_STEPS = 32
"""Removals whose updates of the inverse are kept as factors, until one matrix product does them all."""
_BYTES = 2**29
"""Most memory for the inverses of the groups that are worked on at a time."""
_DENSE = 0.75
"""Share of inputs left at which those that are gone are cut out of the inverses."""
_TINY = 1e-12
"""Least diagonal of an inverse, which rounding may take below 0."""
_MOST_INPUTS = 8192
"""Inputs up to which H is kept whole: in float64, with its factor and its inverse, it takes 1.6 GB."""
_MOST_WORK = 1.5e13
"""Most G x D^3 for the order of a layer: ResNet-50's and VGG's largest convolutions have 1.3e13, for which a core that others use
as well takes a quarter of an hour; VGG's linear layers have 1.7e13, 7e13 and 1.6e16."""
_DAMPING = 0.01
"""Share of H's mean diagonal that is added to it, so that inputs that never vary have an inverse, too."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The order in which the inputs of each group of rows go.

    Args:
        order: (G, D) int64, inputs by removal, the first to go first.
        loss: (G, D) float32, the squared error that each removal adds; never falling along a row, as what comes
            later is not to go before what it depends on.
    """

    order: Tensor
    loss: Tensor


def has_matrix(outputs: int, inputs: int) -> bool:
    """Whether H of a layer is collected whole, (D, D); else its diagonal (D,), for want of memory or of time."""
    return inputs <= _MOST_INPUTS and -(-outputs // GROUP_SIZE) * inputs**3 <= _MOST_WORK


def damped(gram: Tensor) -> Tensor:
    """``gram`` (D, D) in float64 with a share of its mean diagonal added, so that it has an inverse."""
    damping = _DAMPING * gram.diagonal().double().mean().clamp_min(1e-12)
    return gram.double() + damping * torch.eye(len(gram), dtype=torch.float64)


def inverse_of(system: Tensor) -> Tensor:
    """The inverse of a symmetric positive definite ``system`` (D, D), as ``damped`` makes them."""
    inverse: Tensor = torch.cholesky_inverse(torch.linalg.cholesky(system))
    return inverse


def grouped_rows(weight: Tensor) -> Tensor:
    """Rows (out, D) as groups (ceil(out / 4), 4, D); a last group that is not whole is filled with zeros."""
    missing = -len(weight) % GROUP_SIZE
    rows = torch.cat([weight, weight.new_zeros(missing, weight.shape[1])]) if missing else weight
    return rows.view(-1, GROUP_SIZE, weight.shape[1])


@torch.no_grad()
def removal_order(weight: Tensor, gram: Tensor) -> Removal:
    """The order of removal of a layer.

    Args:
        weight: (out, D), a convolution's with its window in D.
        gram: (D, D), or its diagonal (D,); see ``statistics``.
    """
    if gram.ndim == 1:
        energy = torch.linalg.vector_norm(grouped_rows(weight.float()), dim=1).square() * gram
        loss, order = energy.sort(dim=1, stable=True)
        return Removal(order, loss)
    inverse = inverse_of(damped(gram)).float()
    rows = grouped_rows(weight.float())
    at_a_time = max(1, _BYTES // (4 * inverse.numel()))
    parts = [_remove_all(part, inverse) for part in torch.split(rows, at_a_time)]
    return Removal(torch.cat([p.order for p in parts]), torch.cat([p.loss for p in parts]))


def _remove_all(rows: Tensor, inverse: Tensor) -> Removal:
    """Remove all inputs of ``rows`` (G, R, D), a stretch of steps at a time on what is left."""
    groups, _, inputs = rows.shape
    names = torch.arange(inputs).expand(groups, inputs)
    state = _State(
        rows.clone(), inverse.expand(groups, inputs, inputs).clone(), rows.new_zeros(groups, inputs).bool()
    )
    orders, losses, left = [], [], inputs
    while left:
        steps = min(_STEPS, left)
        chosen, loss = state.remove(steps)
        orders.append(names.gather(1, chosen))
        losses.append(loss)
        left -= steps
        if 0 < left <= _DENSE * names.shape[1]:
            names = names.gather(1, state.compact())
    return Removal(torch.cat(orders, 1), torch.cat(losses, 1).cummax(1).values)


@dataclass
class _State:
    """Groups on the way.

    Args:
        rows: (G, R, D).
        inverses: (G, D, D), of the inputs that are left; what stands in the rows of others is never read.
        gone: (G, D) inputs that were removed.
    """

    rows: Tensor
    inverses: Tensor
    gone: Tensor

    def remove(self, steps: int) -> tuple[Tensor, Tensor]:
        """Remove ``steps`` inputs from each group: which (G, steps), and the losses."""
        rows, gone = self.rows, self.gone
        groups, _, inputs = rows.shape
        every = torch.arange(groups)
        diagonal = self.inverses.diagonal(dim1=1, dim2=2).clone()
        factors = rows.new_zeros(groups, steps, inputs)
        chosen, losses = torch.empty(groups, steps, dtype=torch.int64), rows.new_empty(groups, steps)
        for step in range(steps):
            score = (rows.square().sum(1) / diagonal).masked_fill(gone, torch.inf)
            losses[:, step], one = score.min(1)
            chosen[:, step] = one
            column = self.inverses[every, one].unsqueeze(1)
            if step:
                column = column - factors[every, :step, one].unsqueeze(1) @ factors[:, :step]
            pivot = column[every, 0, one].clamp_min(_TINY)[:, None, None]
            rows.baddbmm_(rows[every, :, one].unsqueeze(2) / pivot, column, alpha=-1)
            rows[every, :, one] = 0
            factor = column[:, 0] / pivot[:, 0].sqrt()
            factors[:, step] = factor
            diagonal = (diagonal - factor.square()).clamp_min(_TINY)
            gone[every, one] = True
        self.inverses.baddbmm_(factors.mT, factors, alpha=-1)
        return chosen, losses

    def compact(self) -> Tensor:
        """Leave out what is gone; the inputs that stay, (G, K)."""
        kept = (~self.gone).nonzero()[:, 1].view(len(self.gone), -1)
        self.rows = self.rows.gather(2, kept[:, None].expand(-1, self.rows.shape[1], -1))
        self.inverses = torch.stack([m[k][:, k] for m, k in zip(self.inverses, kept, strict=True)])
        self.gone = torch.zeros_like(kept, dtype=torch.bool)
        return kept
