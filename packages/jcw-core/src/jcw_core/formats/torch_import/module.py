"""``from_module``: a trained torch module as a ``Model``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from jcw_core.errors import FormatError, NetworkError
from jcw_core.formats.torch_import.exported import Exported, export
from jcw_core.formats.torch_import.layers import LAYERS
from jcw_core.formats.torch_import.pointwise import POINTWISE
from jcw_core.formats.torch_import.shapes import SHAPES
from jcw_core.formats.torch_import.translation import Obstacle, Translation
from jcw_core.network.model import Model
from jcw_core.training.execution import BatchNorm, execute

OPERATORS = {**LAYERS, **POINTWISE, **SHAPES}
"""By operator, without its overload. What is not here is an obstacle, and is named."""

TOLERANCE = 1e-4
"""Largest difference between the network's outputs and the module's, as a share of the largest output."""


def from_module(
    module: nn.Module, example: Tensor, *, name: str | None = None, outputs: Sequence[str] = ()
) -> Model:
    """The network that a module computes in evaluation mode, with its weights.

    Nodes are named after the parameters that they read, so the model's weights have the names of the module's
    state dict. What the network computes for ``example`` is compared with what the module does.

    Args:
        module: left as it is, but for being set to evaluation mode while it is read. Several outputs, in tuples, lists or
            dictionaries, are flattened and joined in their order.
        example: (1, channels, height, width) float32; its size is the network's. Noise will do.
        name: of the network, the module's class by default.
        outputs: names of modules within it, e.g. ``head.scores``, at which the network ends: its outputs are what these return
            when they are first called, and what the module does after the last of them is left outside.

    Raises:
        FormatError: the module cannot be exported, lacks or does not call one of ``outputs``, has operators that have no place in a network (all are listed),
            or computes something else than the network that came of it.
    """
    name = name or type(module).__name__
    exported = export(module, example, name, outputs)
    model = _translated(exported, name)
    _compare(model, exported.expected, example)
    return model


def _translated(exported: Exported, name: str) -> Model:
    """The network, or an error that lists every operator that has no place in one."""
    net = Translation(exported, name)
    obstacles: dict[str, None] = {}
    for operator in exported.operators:
        try:
            if operator.op not in OPERATORS:
                raise Obstacle(f"{operator.op} has no place in a network")
            net[operator.name] = OPERATORS[operator.op](net, operator)
        except Obstacle as error:
            net.give_up(operator.name)
            if error.is_new:
                obstacles[f"{operator.name}: {error}"] = None
        except NetworkError as error:
            net.give_up(operator.name)
            obstacles[str(error)] = None
    if obstacles:
        raise FormatError(f"{name}: {'; '.join(obstacles)}", see=NetworkError.page)
    return net.model()


@torch.no_grad()
def _compare(model: Model, wanted: Tensor, example: Tensor) -> None:
    """Raise ``FormatError`` unless the model computes what the module did."""
    tensors = {key: torch.from_numpy(array) for key, array in model.weights.items()}
    statistics: Mapping[str, Tensor] = {key: tensors[key] for key in model.network.buffer_shapes}
    found = execute(model.network, tensors, example, BatchNorm(statistics))
    if found.shape != wanted.shape:
        raise FormatError(
            f"{model.network.name}: the network's output is {tuple(found.shape)}, the module's {tuple(wanted.shape)}"
        )
    worst = float((found - wanted).abs().max()) / max(float(wanted.abs().max()), 1e-12)
    if not worst <= TOLERANCE:
        raise FormatError(
            f"{model.network.name}: the network's outputs differ from the module's by {worst:.2g} of the largest, "
            f"more than {TOLERANCE:g}; this is a fault of the import"
        )
