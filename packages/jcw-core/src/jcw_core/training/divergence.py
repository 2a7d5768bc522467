"""Where a training that diverges does so: the layer whose numbers are the first that are not finite."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Node
from jcw_core.training.execution import BatchNorm, execute
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic
from jcw_core.training.precision import computing


@torch.no_grad()
def bad_output(
    module: Slimmable, images: Tensor, architecture: Architecture | None, arithmetic: Arithmetic
) -> str:
    """What of a training step's forward pass is the first that is not finite, in words."""
    names: list[str] = []

    def watch(node: Node, value: Tensor) -> None:
        if not names and not value.isfinite().all():
            names.append(node.name)

    with computing(arithmetic):
        execute(module.network, module.subnetwork(architecture), images, BatchNorm(), watch)
    return f"the output of layer {names[0]!r} is not finite" if names else "the loss is not finite"


def bad_gradient(module: Slimmable) -> str | None:
    """The first gradient that is not finite, on the way back from the output; None where all are."""
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    # Sums tell of infinities and NaN alike, and read each gradient once.
    if torch.stack([gradient.sum() for gradient in gradients.values()]).isfinite().all():
        return None
    found = _first_not_finite(dict(reversed(gradients.items())))
    return found and f"the gradient of layer {found!r} is not finite"


def bad_state(module: Slimmable) -> str | None:
    """The first layer with weights or statistics that are not finite; None where all are."""
    found = _first_not_finite(module.state_dict())
    return found and f"what layer {found!r} has learnt is not finite"


def _first_not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Layer of the first tensor that is not finite, by state-dict name."""
    bad = (name for name, tensor in tensors.items() if not tensor.isfinite().all())
    name = next(bad, None)
    return None if name is None else name.rpartition(".")[0]
