"""Universally slimmable networks (Yu and Huang 2019): weights that serve every uniform width, trained once.

Faithful: the sandwich rule, distillation in place by the largest, one factor for all layers, batch-norm statistics of
each width computed afterwards. The architecture is that of uniform widths; what is handed over are the shared
weights, cut down, not weights of a training of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from jcw_core.space import SearchSpace
from jcw_core.training.loop import Method, Subnetworks
from jcw_rivals.uniform import scaled


@dataclass(frozen=True)
class UniformSandwich(Method):
    """Each step trains the largest, the smallest and some random uniform widths, the first of which teaches.

    Args:
        space: whose bounds are the smallest width.
        least: the smallest factor.
        between: random factors of a step, two in the paper.
    """

    space: SearchSpace
    least: float = 0.25
    between: int = 2

    def subnetworks(self, epoch: int, steps: int, rng: np.random.Generator) -> Iterator[Subnetworks]:
        """The sub-networks of each step of an epoch."""
        ends = np.broadcast_to([1.0, self.least], (steps, 2))
        drawn = rng.uniform(self.least, 1, (steps, self.between))
        architecture = self.space.architecture
        for factors in np.concatenate([ends, drawn], axis=1):
            yield [architecture(row) for row in scaled(self.space, factors)]
