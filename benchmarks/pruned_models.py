"""The networks that are timed whole, with random weights that are pruned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jcw_core.backbones.mobilenet_v1 import MOBILENET_V1
from jcw_core.backbones.mobilenet_v2 import MOBILENET_V2
from jcw_core.backbones.resnet import RESNET18
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.network.weight_groups import density_mask

BACKBONES = {family.name: family for family in (RESNET18, MOBILENET_V1, MOBILENET_V2)}
DENSITIES = (1.0, 0.2, 0.1)


def pruned_model(network: Network, density: float, rng: np.random.Generator) -> Model:
    """Random weights whose activations stay near one in size at any density."""
    arrays: dict[str, NDArray[np.float32]] = {}
    first = next(node.name for node in network if node.op == "conv2d")
    for name, shape in {**network.parameter_shapes, **network.buffer_shapes}.items():
        values = rng.standard_normal(shape)
        if len(shape) > 1:
            pruned = shape[1] > 1 and name != f"{first}.weight"
            values *= density_mask(values, density) if pruned else 1.0
            values /= np.sqrt(np.square(values).sum() / shape[0])
        elif name.endswith(("running_var", "weight")):
            values = 1 + 0.1 * np.abs(values)
        else:
            values *= 0.1
        arrays[name] = values.astype(np.float32)
    return Model(network, arrays)
