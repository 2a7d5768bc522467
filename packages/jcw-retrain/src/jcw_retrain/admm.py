"""ADMM and training with fixed masks, as methods of the training loop."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from jcw_core.training.loop import Method
from jcw_core.training.masks import density_mask
from jcw_core.training.module import Slimmable


def projection(weight: Tensor, density: float) -> Tensor:
    """The nearest weights of that density: the top share of weight groups by L2 norm, the rest zero."""
    return weight * density_mask(weight, density, order=2)


class Admm(Method):
    """Pulls weights towards pruned ones by the alternating direction method of multipliers.

    W follows SGD on the loss plus ``(rho / 2) |W - U + Z|^2``; after each epoch U is the projection of
    W + Z, and Z grows by W - U (the paper's appendix on retraining).

    Args:
        module: being trained.
        densities: share of weight groups to keep, by layer; layers at 1 are left alone.
        rho: weight of the pull.
        epochs: how many there will be.
    """

    def __init__(self, module: Slimmable, densities: Mapping[str, float], rho: float, epochs: int) -> None:
        self._rho = rho
        self._densities = {layer: density for layer, density in densities.items() if density < 1}
        self._weights = {layer: module.get_parameter(f"{layer}.weight") for layer in self._densities}
        self._u = {
            layer: projection(w.detach(), self._densities[layer]) for layer, w in self._weights.items()
        }
        self._z = {layer: torch.zeros_like(w.detach()) for layer, w in self._weights.items()}
        # A part of the state, so that a training which was killed knows them all at its end.
        self._residuals = {layer: torch.zeros(epochs) for layer in self._weights}

    def adjust_gradients(self) -> None:
        """Add the gradient of the pull."""
        for layer, weight in self._weights.items():
            assert weight.grad is not None
            weight.grad.add_(weight.detach() - self._u[layer] + self._z[layer], alpha=self._rho)

    def end_epoch(self, epoch: int) -> None:
        """Update U and Z in place, so that ``state`` stays valid."""
        for layer, weight in self._weights.items():
            u, z = self._u[layer], self._z[layer]
            u.copy_(projection(weight.detach() + z, self._densities[layer]))
            z.add_(weight.detach() - u)
            self._residuals[layer][epoch] = (weight.detach() - u).norm() / weight.detach().norm()

    def state(self) -> dict[str, Tensor]:
        """U, Z and the residuals by layer."""
        kept = {"u": self._u, "z": self._z, "residual": self._residuals}
        return {f"{name}.{layer}": t for name, tensors in kept.items() for layer, t in tensors.items()}

    @property
    def residuals(self) -> dict[str, list[float]]:
        """The primal residual ``|W - U| / |W|`` of each layer after each epoch; it falls to 0 where ADMM converges."""
        return {layer: residuals.tolist() for layer, residuals in self._residuals.items()}


class FixedMasks(Method):
    """Weights that are zero stay zero."""

    def __init__(self, module: Slimmable, masks: Mapping[str, Tensor]) -> None:
        self._pairs = [(module.get_parameter(f"{layer}.weight"), mask) for layer, mask in masks.items()]

    def adjust_gradients(self) -> None:
        """Drop the gradients of pruned weights: decay leaves a zero alone, and momentum has nothing to build on."""
        for weight, mask in self._pairs:
            assert weight.grad is not None
            weight.grad.mul_(mask)


@torch.no_grad()
def prune(module: Slimmable, densities: Mapping[str, float]) -> dict[str, Tensor]:
    """Set all but the top share of weight groups by L2 norm to zero.

    Returns:
        the masks of the layers that were pruned.
    """
    masks = {}
    for layer, density in densities.items():
        if density < 1:
            weight = module.get_parameter(f"{layer}.weight")
            masks[layer] = density_mask(weight, density, order=2)
            weight.mul_(masks[layer])
    return masks
