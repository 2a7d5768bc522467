"""How far a pruned network's outputs are from the dense one's, without labels. Needs torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from torch import Tensor

from jcw_core.network.graph import Network
from jcw_core.network.outputs import makes_logits

_LEAST = 1e-12
"""Of probabilities, so that they have a logarithm."""


def distance(network: Network, dense: Sequence[Tensor], outputs: Iterable[Tensor]) -> float:
    """The mean over images of how far outputs are from those of the dense network.

    Logits: the Kullback-Leibler divergence of the classes from the dense network's, in nats. All else, such as maps: the
    squared difference as a share of the dense outputs' squares, over all values of all images.

    Args:
        network: what makes the outputs.
        dense: the dense network's, (n, values) for each batch.
        outputs: in the same batches.
    """
    if makes_logits(network):
        pairs = [
            F.kl_div(_log(network, found), _log(network, wanted), reduction="sum", log_target=True)
            for wanted, found in zip(dense, outputs, strict=True)
        ]
        return float(torch.stack(pairs).sum()) / sum(map(len, dense))
    squares = sum(float(wanted.double().square().sum()) for wanted in dense)
    errors = sum(
        float((wanted.double() - found.double()).square().sum())
        for wanted, found in zip(dense, outputs, strict=True)
    )
    return errors / max(squares, _LEAST)


def _log(network: Network, outputs: Tensor) -> Tensor:
    """Logarithms of the classes' probabilities, (n, classes)."""
    if network[network.output.inputs[0]].op == "softmax":
        return outputs.clamp(min=_LEAST).log()
    return F.log_softmax(outputs, 1)
