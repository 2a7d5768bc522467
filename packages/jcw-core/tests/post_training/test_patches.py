"""What a layer's outputs read, as columns: the weights times them are the outputs, whatever the padding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from core_networks import random_weights, run

from jcw_core.network.builder import NetworkBuilder
from jcw_core.post_training.statistics import patches


@pytest.mark.parametrize("seed", range(12))
def test_weights_times_patches_are_outputs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel = tuple(map(int, rng.integers(1, 4, 2)))
    sides = tuple(int(rng.integers(0, k)) for k in kernel * 2)
    net = NetworkBuilder("net", (3, 7, 6))
    stride = tuple(map(int, rng.integers(1, 3, 2)))
    window = {"kernel_size": kernel, "stride": stride, "padding": sides if seed % 2 else sides[:2]}
    net.add("conv", "conv2d", out_channels=5, groups=1, bias=False, **window)
    network = net.build()
    weights, image = random_weights(network, rng), rng.normal(size=(3, 7, 6))
    columns = patches(network["conv"], torch.from_numpy(image)[None]).numpy()
    found = weights["conv.weight"].reshape(5, -1) @ columns
    np.testing.assert_allclose(
        found.reshape(-1), run(network, weights, image)["output"].reshape(-1), atol=1e-9
    )
