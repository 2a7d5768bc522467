"""A slimmable network goes where torch's own modules go: averages, files, other processes."""

# ruff: noqa: S301, TID251  what these tests unpickle they have pickled themselves

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import torch
from torch.optim.swa_utils import AveragedModel

from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.space.space import SearchSpace
from jcw_core.training.module import Slimmable


def through_a_file(module: Slimmable) -> Slimmable:
    content = io.BytesIO()
    torch.save(module, content)
    content.seek(0)
    loaded: Slimmable = torch.load(content, weights_only=False)
    return loaded


def logits(module: Slimmable, images: torch.Tensor, architecture: Architecture | None = None) -> np.ndarray:
    """In training mode, in which a sub-network needs no statistics of its own."""
    torch.set_num_threads(1)
    with torch.no_grad():
        return module.train()(images, architecture).numpy()


@pytest.mark.parametrize("again", [copy.deepcopy, through_a_file, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_computes_the_same_and_trains_on_its_own(again, network: Network, space: SearchSpace) -> None:
    rng = np.random.default_rng(0)
    module = Slimmable(network, rng)
    images = torch.from_numpy(rng.normal(size=(4, *network.input_shape)).astype("f4"))
    smallest = space.architecture(space.low)
    before = {architecture: logits(module, images, architecture) for architecture in (None, smallest)}
    copied = again(module)
    assert copied.network == network
    for architecture, expected in before.items():
        np.testing.assert_array_equal(logits(copied, images, architecture), expected)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(logits(module, images), before[None])


def test_torch_averages_a_slimmable_network(network: Network) -> None:
    module = Slimmable(network, np.random.default_rng(0))
    average = AveragedModel(module)
    first = module.weights()
    average.update_parameters(module)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 1
    average.update_parameters(module)
    for name, value in average.module.named_parameters():
        np.testing.assert_allclose(value.detach().numpy(), first[name] + 0.5, rtol=0, atol=1e-6)
    images = torch.zeros(2, *network.input_shape)
    assert average.eval()(images).shape == (2, network.num_classes)


def test_a_module_computes_the_same_in_another_process(network: Network, space: SearchSpace) -> None:
    """In float64: memory shared between processes may lie so that other instructions sum in another order."""
    rng = np.random.default_rng(0)
    module = Slimmable(network, rng).double().requires_grad_(False)
    images = torch.from_numpy(rng.normal(size=(3, *network.input_shape)))
    architecture = space.architecture(space.low)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(module, images, architecture).result().numpy()
    np.testing.assert_allclose(found, logits(module, images, architecture), rtol=1e-6, atol=1e-6)
