"""Networks with random weights and images, for what is pruned after training. Needs torch."""

from __future__ import annotations

import numpy as np
import torch
from core_networks import small_resnet
from supernet_samples import BUILDERS
from torch import Tensor

from jcw_core.network.graph import Network
from jcw_core.training.execution import BatchNorm, execute

NETWORKS = {**BUILDERS, "small_resnet": small_resnet}


def random_tensors(network: Network, seed: int) -> dict[str, Tensor]:
    rng = np.random.default_rng(seed)
    shapes = {**network.parameter_shapes, **network.buffer_shapes}
    drawn = {name: rng.normal(0.1, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    drawn |= {name: np.abs(drawn[name]) + 0.5 for name in drawn if name.endswith("running_var")}
    return {name: torch.from_numpy(array) for name, array in drawn.items()}


def random_images(network: Network, count: int) -> Tensor:
    rng = np.random.default_rng(count)
    return torch.from_numpy(rng.normal(size=(count, *network.input_shape)).astype(np.float32))


def outputs(network: Network, tensors: dict[str, Tensor], images: Tensor) -> Tensor:
    return execute(
        network, tensors, images, BatchNorm({name: tensors[name] for name in network.buffer_shapes})
    )
