"""ADMM's projection by brute force, its steps by hand, and masks that hold."""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pytest
import torch
from retrain_samples import SMALL, Stripes, network

from jcw_core.network.weight_groups import density_mask, kept_groups, weight_density
from jcw_core.training.batches import TrainingImages
from jcw_core.training.loop import Training
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic, Augmentation, TrainingOptions
from jcw_retrain.admm import Admm, FixedMasks, projection, prune

DENSITIES = {"conv2": 0.4, "conv3": 0.5, "fc": 1.0}


def nearest(weight: np.ndarray, density: float) -> np.ndarray:
    """The nearest weights with that share of groups, by trying every set of groups."""
    starts = range(0, len(weight), 4)
    groups = [(s, at) for s in starts for at in np.ndindex(weight.shape[1:])]
    best, least = weight, np.inf
    for kept in combinations(groups, kept_groups(density, len(groups))):
        pruned = np.zeros_like(weight)
        for start, at in kept:
            pruned[(slice(start, start + 4), *at)] = weight[(slice(start, start + 4), *at)]
        distance = float(((pruned - weight) ** 2).sum())
        if distance < least:
            best, least = pruned, distance
    return best


@pytest.mark.parametrize("shape", [(8, 2, 1, 2), (6, 5), (3, 2, 2, 2), (9, 1, 1, 3)])
@pytest.mark.parametrize("density", [0.05, 0.3, 0.5, 0.8])
def test_projection_is_the_nearest_pruned_weight(shape: tuple[int, ...], density: float) -> None:
    weight = np.random.default_rng(prod(shape)).standard_normal(shape)
    assert np.array_equal(projection(torch.from_numpy(weight), density).numpy(), nearest(weight, density))


def test_pruning_keeps_the_nearest_weights() -> None:
    module = Slimmable(network(), np.random.default_rng(0))
    weight = module.get_parameter("fc.weight")
    # Even columns have the larger L2 norm, odd ones the larger L1 norm.
    lone, even = torch.tensor([[2.0], [0.0], [0.0]]), torch.arange(12) % 2 == 0
    with torch.no_grad():
        weight.copy_(torch.where(even, lone, 1.0))
    masks = prune(module, {"fc": 0.5, "conv2": 1.0})
    assert masks.keys() == {"fc"}
    assert torch.equal(masks["fc"] != 0, even.expand(3, 12))
    assert torch.equal(weight.detach(), torch.where(even, lone, 0.0))


def test_admm_follows_its_equations() -> None:
    module = Slimmable(network(), np.random.default_rng(0)).double()
    admm = Admm(module, DENSITIES, rho=0.3, epochs=4)
    weight = module.get_parameter("conv2.weight")
    u, z = projection(weight.detach(), 0.4).numpy(), np.zeros(weight.shape)
    rng = np.random.default_rng(1)
    for epoch in range(4):
        loss_gradients = {
            n: torch.from_numpy(rng.standard_normal(p.shape)) for n, p in module.named_parameters()
        }
        for name, parameter in module.named_parameters():
            parameter.grad = loss_gradients[name].clone()
        admm.adjust_gradients()
        # The pull is the gradient of (rho / 2) |W - U + Z|^2, taken here by autograd.
        free = weight.detach().clone().requires_grad_()
        (0.15 * (free - torch.from_numpy(u) + torch.from_numpy(z)).square().sum()).backward()
        assert weight.grad is not None
        torch.testing.assert_close(weight.grad, loss_gradients["conv2.weight"] + free.grad)
        assert torch.equal(module.get_parameter("fc.weight").grad, loss_gradients["fc.weight"])
        with torch.no_grad():
            weight.add_(torch.from_numpy(0.1 * rng.standard_normal(weight.shape)))
        admm.end_epoch(epoch)
        moved = weight.detach().numpy()
        u = (moved + z) * density_mask(moved + z, 0.4)
        z = z + moved - u
        np.testing.assert_allclose(admm.state()["u.conv2"], u, atol=1e-12)
        np.testing.assert_allclose(admm.state()["z.conv2"], z, atol=1e-12)
        primal = np.linalg.norm(moved - u) / np.linalg.norm(moved)
        np.testing.assert_allclose(admm.residuals["conv2"][epoch], primal, rtol=1e-6)
    assert admm.residuals.keys() == {"conv2", "conv3"}


def test_admm_brings_weights_near_their_pruned_selves(tmp_path) -> None:  # type: ignore[no-untyped-def]
    def distance(rho: float) -> float:
        module = Slimmable(network(), np.random.default_rng(0))
        options = TrainingOptions(epochs=6, batch_size=16, lr=0.02, annealing="constant")
        images = TrainingImages(Stripes(160), Augmentation(), Arithmetic())
        admm = Admm(module, DENSITIES, rho, 6)
        path = tmp_path / str(rho)
        Training(module, images, options, Arithmetic(), np.random.default_rng, path, method=admm).run()
        weight = module.get_parameter("conv2.weight").detach()
        return float((weight - projection(weight, 0.4)).norm() / weight.norm())

    assert distance(2.0) < 0.5 * distance(0.0)


def test_pruned_weights_stay_zero_and_the_others_move(tmp_path) -> None:  # type: ignore[no-untyped-def]
    module = Slimmable(network(), np.random.default_rng(0))
    masks = prune(module, DENSITIES)
    assert masks.keys() == {"conv2", "conv3"}
    before = {layer: module.get_parameter(f"{layer}.weight").detach().clone() for layer in DENSITIES}
    options = TrainingOptions(epochs=3, batch_size=16, lr=0.05, weight_decay=1e-3)
    images = TrainingImages(Stripes(160), Augmentation(), Arithmetic())
    method = FixedMasks(module, masks)
    Training(
        module, images, options, Arithmetic(), np.random.default_rng, tmp_path / "c", method=method
    ).run()
    for layer, mask in masks.items():
        weight = module.get_parameter(f"{layer}.weight").detach()
        assert torch.equal(weight != 0, mask != 0)
        assert weight_density(weight.numpy()) == pytest.approx(DENSITIES[layer], abs=1 / 24)
        assert not torch.equal(weight, before[layer])
    assert SMALL.densities["fc"] == 1.0
