"""``score_subnetwork`` and ``score_network``: error and loss on fixed images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows

from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.supernet.calibration import calibrate
from jcw_core.training.accelerator import scoring_within_memory
from jcw_core.training.batches import EVALUATED, Batch
from jcw_core.training.execution import BatchNorm, Tensors, execute
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic
from jcw_core.training.precision import computing


@dataclass(frozen=True, slots=True)
class Score:
    """Share of images classified wrongly, and mean cross-entropy in nats."""

    error: float
    loss: float


@torch.inference_mode()
def score_subnetwork(
    module: Slimmable,
    architecture: Architecture,
    calibration: Sequence[Batch],
    batches: Sequence[Batch],
    arithmetic: Arithmetic,
) -> Score:
    """Calibrate a sub-network's batch norm, then score it. Thread-safe; the module is not changed."""
    with computing(arithmetic), scoring_within_memory(EVALUATED, arithmetic):
        tensors = module.subnetwork(architecture)
        statistics = calibrate(module.network, tensors, (images for images, _ in calibration))
        return score_tensors(module.network, tensors, BatchNorm(statistics), batches)


@torch.inference_mode()
def score_network(module: Slimmable, batches: Sequence[Batch], arithmetic: Arithmetic) -> Score:
    """Score the whole network with its running statistics."""
    with computing(arithmetic), scoring_within_memory(EVALUATED, arithmetic):
        return score_tensors(module.network, module.subnetwork(), BatchNorm(module.statistics()), batches)


def score_tensors(network: Network, tensors: Tensors, norm: BatchNorm, batches: Sequence[Batch]) -> Score:
    """Score a network with the parameters ``tensors``."""
    wrong, loss, count = 0, 0.0, 0
    for images, labels in batches:
        logits = execute(network, tensors, images, norm).float()
        wrong += int((logits.argmax(1) != labels).sum())
        loss += float(F.cross_entropy(logits, labels, reduction="sum"))
        count += len(labels)
    return Score(wrong / count, loss / count)
