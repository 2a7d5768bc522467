"""Fast Sparse ConvNets (Elsen et al. 2020): one density for all layers, reached by gradual magnitude pruning.

Faithful: all channels stay, the first layer stays dense, weights go by magnitude in blocks of output channels while the
network is trained, by the cubic schedule of Zhu and Gupta (2017). Blocks are this engine's, of four output channels
rather than one or two, and the density is found by latency.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from jcw_core.space import Population
from jcw_core.training.loop import Method, Subnetworks
from jcw_core.training.masks import density_mask
from jcw_core.training.module import Slimmable
from jcw_rivals.setting import Setting, along

_DENSITIES = np.linspace(1, 0.01, 100)


@dataclass(frozen=True)
class FastSparse:
    """The largest density within each budget, the same for all layers as far as their bounds allow."""

    name: str = "fast-sparse"
    source: str = "Elsen et al. 2020, Fast Sparse ConvNets"

    def choose(self, setting: Setting, budgets_ms: Sequence[float]) -> list[Population | None]:
        """One row within each budget."""
        space = setting.space
        features = np.where(space.is_width, 1.0, _DENSITIES[:, None])
        return along(setting, space.decode(features), budgets_ms)


class GradualPruning(Method):
    """Prunes weight groups while the network is trained, and keeps them at zero.

    Density falls from 1 to its end as ``end + (1 - end) (1 - t)^3``, t the share of the pruning steps that is done.

    Args:
        module: being trained.
        densities: at the end, by layer.
        steps: of the whole training.
        begin, end: shares of the training between which density falls.
        every: steps from one pruning to the next.
    """

    def __init__(
        self,
        module: Slimmable,
        densities: Mapping[str, float],
        steps: int,
        begin: float = 0.2,
        end: float = 0.7,
        every: int = 20,
    ) -> None:
        self._densities = {layer: density for layer, density in densities.items() if density < 1}
        self._weights = {layer: module.get_parameter(f"{layer}.weight") for layer in self._densities}
        self._masks = {layer: torch.ones_like(w.detach()) for layer, w in self._weights.items()}
        self._step = torch.zeros(1, dtype=torch.int64)
        self._steps, self._begin, self._end, self._every = steps, begin * steps, end * steps, every

    def density(self, end: float, step: int) -> float:
        """What a layer that ends at density ``end`` keeps at ``step``."""
        done = min(max((step - self._begin) / max(self._end - self._begin, 1), 0.0), 1.0)
        return end + (1 - end) * (1 - done) ** 3

    def subnetworks(self, epoch: int, steps: int, rng: np.random.Generator) -> Iterator[Subnetworks]:
        """The whole network, whose pruned weights are zero again.

        Momentum has moved them since the last step, by less and less: numbers so small that a processor takes ten
        times as long to multiply them.
        """
        for whole in super().subnetworks(epoch, steps, rng):
            self._mask()
            yield whole

    @torch.no_grad()
    def adjust_gradients(self) -> None:
        """Prune when it is time; what is pruned gets no gradient."""
        step = int(self._step)
        if step % self._every == 0 or step == self._steps - 1:
            self._prune(step)
        self._step += 1
        for layer, weight in self._weights.items():
            assert weight.grad is not None
            weight.grad.mul_(self._masks[layer])

    def _prune(self, step: int) -> None:
        for layer, weight in self._weights.items():
            kept = self.density(self._densities[layer], step)
            self._masks[layer].copy_(density_mask(weight.detach(), kept, order=2))
        self._mask()

    @torch.no_grad()
    def _mask(self) -> None:
        for layer, weight in self._weights.items():
            weight.mul_(self._masks[layer])

    def end_epoch(self, epoch: int) -> None:
        """Momentum has moved what was pruned; it goes back to zero."""
        self._mask()

    def state(self) -> dict[str, Tensor]:
        """The masks, and the step."""
        return {"step": self._step, **{f"mask.{layer}": mask for layer, mask in self._masks.items()}}
