"""Widths as Markov chains (section 3.1 of DMCP): part k of a layer's channels stays with a probability if part k - 1 does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network
from jcw_core.network.operations import LAYERS
from jcw_core.space import Population, SearchSpace
from jcw_core.training.execution import Tensors
from jcw_core.training.module import Slimmable
from jcw_rivals.setting import Floats, wide


class Chains:
    """One chain for each width that may vary.

    Its first part are the fewest channels that the space allows, which always stay.

    Args:
        space: the search space.
        parts: into which the other channels of a layer are cut at most; each is whole steps of the space.
        logit: of each probability, to begin with.
    """

    def __init__(self, space: SearchSpace, parts: int, logit: float) -> None:
        self.space = space
        self.columns = np.flatnonzero(wide(space))
        self.edges = [_edges(space, column, parts) for column in self.columns]
        """(parts + 1,) by chain: the widths between which it chooses."""
        self.logits = [torch.full((len(e) - 1,), logit, requires_grad=True) for e in self.edges]

    def marginals(self, shift: float = 0.0) -> list[Tensor]:
        """(parts,) by chain: the probability that a part stays, which is that of its transition and of all before.

        Args:
            shift: added to all logits.
        """
        return [torch.sigmoid(logits + shift).cumprod(0) for logits in self.logits]

    def widths(self, shift: float = 0.0) -> Tensor:
        """Expected channels, (chains,)."""
        sizes = [torch.from_numpy(np.diff(edges)).float() for edges in self.edges]
        kept = [marginals @ size for marginals, size in zip(self.marginals(shift), sizes, strict=True)]
        return torch.stack(kept) + torch.tensor([edges[0] for edges in self.edges]).float()

    def row(self, widths: Tensor) -> Population:
        """(dimensions,) what is nearest to widths (chains,), with all weights."""
        values = self.space.maximum.copy()
        values[self.columns] = widths.detach().double().numpy()
        nearest: Population = self.space.decode(self.space.encode(values[None]))[0]
        return nearest

    @torch.no_grad()
    def draw(self, rng: np.random.Generator) -> Population:
        """(dimensions,) an architecture as the chains have it: each goes on until a part does not stay."""
        row = self.space.maximum.copy()
        for column, edges, logits in zip(self.columns, self.edges, self.logits, strict=True):
            stays = rng.uniform(size=len(logits)) < torch.sigmoid(logits).numpy()
            row[column] = edges[np.cumprod(stays).sum()]
        return row

    def scales(self) -> dict[str, Tensor]:
        """(channels,) by group: the probability that each channel stays."""
        return {
            self.space.variables[column].name: _spread(marginals, edges)
            for column, marginals, edges in zip(self.columns, self.marginals(), self.edges, strict=True)
        }


def _edges(space: SearchSpace, column: np.intp, parts: int) -> Floats:
    low, high, step = space.low[column], space.high[column], space.step[column]
    widths = np.append(np.arange(low, high - 1e-9, step), high)
    places = np.unique(np.rint(np.linspace(0, len(widths) - 1, parts + 1)).astype(int))
    found: Floats = widths[places]
    return found


def _spread(marginals: Tensor, edges: Floats) -> Tensor:
    each = torch.cat([torch.ones(1), marginals])
    return each.repeat_interleave(torch.from_numpy(np.diff(edges, prepend=0)).long())


def scaled(module: Slimmable, scales: Mapping[str, Tensor]) -> Tensors:
    """The parameters of the whole network that multiply each channel by its scale; gradients reach the scales alone.

    As in the paper channels are multiplied behind batch norms, which would undo it before them; channels that no
    batch norm follows, behind the layer that makes them.

    Args:
        scales: (channels,) by group; groups that it lacks stay as they are.
    """
    network, layout = module.network, couple(module.network).layout
    tensors = {name: tensor.detach() for name, tensor in module.named_parameters()}
    for node in _scaled_nodes(network):
        each = [
            scales.get(s.group, torch.ones(couple(network).groups[s.group].channels)).repeat_interleave(
                s.repeat
            )
            for s in layout[node]
        ]
        for name in (f"{node}.weight", f"{node}.bias"):
            if name in tensors:
                tensors[name] = tensors[name] * torch.cat(each).reshape(-1, *[1] * (tensors[name].dim() - 1))
    return tensors


def _scaled_nodes(network: Network) -> list[str]:
    layout = couple(network).layout
    norms = [node.name for node in network if node.op == "batch_norm"]
    normed = {segment.group for norm in norms for segment in layout[norm]}
    bare = [
        node.name
        for node in network
        if node.op in LAYERS and not any(segment.group in normed for segment in layout[node.name])
    ]
    return [*norms, *bare]
