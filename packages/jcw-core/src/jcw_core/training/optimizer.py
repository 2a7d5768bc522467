"""SGD as the paper has it: its parameter groups, momenta, learning rate, and an average of the weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from jcw_core.training.options import TrainingOptions


def learning_rate(options: TrainingOptions, epoch: float) -> float:
    """Learning rate at a fractional epoch: a linear rise, then a cosine to 0 or a constant."""
    warmup = min(options.lr_warmup_epochs, options.epochs)
    if epoch < warmup:
        return options.lr * epoch / warmup
    if options.annealing == "constant":
        return options.lr
    return options.lr * 0.5 * (1 + math.cos(math.pi * (epoch - warmup) / (options.epochs - warmup)))


def sgd(module: nn.Module, options: TrainingOptions) -> torch.optim.SGD:
    """SGD whose weight decay leaves biases and batch norm alone."""
    parameters = list(module.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]
    nesterov = options.nesterov and options.momentum > 0
    # In one pass over memory: of a supernet all weights are updated, while a sub-network trains few of them.
    return torch.optim.SGD(groups, lr=options.lr, momentum=options.momentum, nesterov=nesterov, fused=True)


def momenta(optimizer: torch.optim.SGD, module: nn.Module) -> dict[str, Tensor]:
    """Momentum buffers by parameter name, made now so that a checkpoint can be read into them."""
    if optimizer.defaults["momentum"] == 0:
        return {}
    buffers = {}
    for name, parameter in module.named_parameters():
        parameter.grad = torch.zeros_like(parameter)
        buffers[name] = optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return buffers


class WeightAverage:
    """An exponential moving average of a module's parameters.

    In its first steps it follows them more closely: after step t (from 0) its decay is at most
    (1 + t) / (10 + t), as TensorFlow's ``ExponentialMovingAverage`` has it.

    Args:
        module: whose parameters are averaged, from their present values on.
        decay: share of the average that a step keeps; 0 to keep no average at all.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._decay = decay
        self._parameters = dict(module.named_parameters()) if decay else {}
        self._average = {name: p.detach().clone() for name, p in self._parameters.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the parameters after a step, counted from 0."""
        decay = min(self._decay, (1 + step) / (10 + step))
        for name, parameter in self._parameters.items():
            self._average[name].lerp_(parameter, 1 - decay)

    def state(self) -> dict[str, Tensor]:
        """The average by parameter name; loading copies into it."""
        return self._average

    @torch.no_grad()
    def apply(self) -> None:
        """Put the average in place of the parameters."""
        for name, parameter in self._parameters.items():
            parameter.copy_(self._average[name])
