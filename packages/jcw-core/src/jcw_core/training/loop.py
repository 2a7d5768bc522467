"""The training loop: SGD with a checkpoint after every epoch.

Everything random in epoch e comes from a generator that depends on e alone, so a run that was
killed goes on from its last checkpoint and ends with the same bits as one that was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from torch import Tensor

from jcw_core.errors import FormatError, JcwError
from jcw_core.network.architecture import Architecture
from jcw_core.training import checkpoint
from jcw_core.training.batches import TrainingImages
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic, TrainingOptions
from jcw_core.training.precision import computing


class Stopped(Exception):  # noqa: N818  not a failure
    """Training ended early because it was told to; its checkpoint is that of the last whole epoch."""


class Method:
    """What a way of training adds to plain SGD on the whole network. Override what differs."""

    def subnetworks(self, steps: int, rng: np.random.Generator) -> Iterator[Architecture | None]:
        """The sub-network of each step of an epoch; None for the whole network."""
        return iter([None] * steps)

    def adjust_gradients(self) -> None:
        """Called when gradients are there, before weights change."""

    def end_epoch(self) -> None:
        """Called when the last step of an epoch is done."""

    def state(self) -> dict[str, Tensor]:
        """Tensors that a checkpoint must hold; loading copies into them."""
        return {}


@dataclass(frozen=True, slots=True)
class EpochReport:
    """One epoch: how many are done, their mean training loss, and wall-clock seconds."""

    done: int
    total: int
    loss: float
    seconds: float


@dataclass(frozen=True)
class Training:
    """One stretch of training.

    Args:
        module: changed in place.
        images: training images.
        options: of SGD.
        arithmetic: precision.
        rng: the generator of an epoch, by its number.
        path: the checkpoint.
        report: called after every epoch, once its checkpoint is written.
        method: what is trained beside plain SGD.
        stop: when set by another thread, training raises ``Stopped`` at its next step.
    """

    module: Slimmable
    images: TrainingImages
    options: TrainingOptions
    arithmetic: Arithmetic
    rng: Callable[[int], np.random.Generator]
    path: Path
    report: Callable[[EpochReport], None] = lambda _: None
    method: Method = field(default_factory=Method)
    stop: Event = field(default_factory=Event)

    def run(self) -> None:
        """Train to the end, from the checkpoint if there is one.

        Raises:
            JcwError: the loss is not a number any more.
            FormatError: the checkpoint belongs to another network.
            DataError: fewer images than one batch.
        """
        optimizer = _optimizer(self.module, self.options)
        momenta = _momenta(optimizer, self.module)
        state = {**_prefixed("model", self.module.state_dict()), **_prefixed("momentum", momenta)}
        state |= _prefixed("method", self.method.state())
        start = self._resume(state)
        self.module.train()
        for epoch in range(start, self.options.epochs):
            began = time.perf_counter()
            loss = self._epoch(epoch, optimizer)
            self.method.end_epoch()
            checkpoint.save(self.path, state, {"epochs": epoch + 1})
            self.report(EpochReport(epoch + 1, self.options.epochs, loss, time.perf_counter() - began))
        self.module.eval()

    def _resume(self, state: dict[str, Tensor]) -> int:
        if not self.path.is_file():
            return 0
        found, note = checkpoint.load(self.path)
        checkpoint.load_into(state, found, self.path)
        epochs = note.get("epochs")
        if not isinstance(epochs, int) or isinstance(epochs, bool) or epochs < 0:
            raise FormatError(
                f"{self.path}: its header says {epochs!r:.60} for epochs, expected a whole number; "
                "delete it and run again"
            )
        return epochs

    def _epoch(self, epoch: int, optimizer: torch.optim.Optimizer) -> float:
        rng, size = self.rng(epoch), self.options.batch_size
        steps, total = self.images.steps(size), 0.0
        subnetworks = self.method.subnetworks(steps, rng)
        for step, (images, labels) in enumerate(self.images.epoch(size, rng)):
            if self.stop.is_set():
                raise Stopped
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(self.options, epoch + step / steps)
            with computing(self.arithmetic):
                logits = self.module(images, next(subnetworks))
            loss = F.cross_entropy(logits.float(), labels, label_smoothing=self.options.label_smoothing)
            optimizer.zero_grad(set_to_none=False)
            loss.backward()  # type: ignore[no-untyped-call]
            self.method.adjust_gradients()
            optimizer.step()
            total += loss.item()
        if not math.isfinite(total):
            raise JcwError(
                f"training of {self.module.network.name} diverged in epoch {epoch + 1}: loss is {total}; "
                f"lower lr (it is {self.options.lr})"
            )
        return total / steps


def learning_rate(options: TrainingOptions, epoch: float) -> float:
    """Learning rate at a fractional epoch: a linear rise, then a cosine to 0 or a constant."""
    warmup = min(options.lr_warmup_epochs, options.epochs)
    if epoch < warmup:
        return options.lr * epoch / warmup
    if options.annealing == "constant":
        return options.lr
    return options.lr * 0.5 * (1 + math.cos(math.pi * (epoch - warmup) / (options.epochs - warmup)))


def _optimizer(module: Slimmable, options: TrainingOptions) -> torch.optim.SGD:
    parameters = list(module.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]
    nesterov = options.nesterov and options.momentum > 0
    return torch.optim.SGD(groups, lr=options.lr, momentum=options.momentum, nesterov=nesterov)


def _momenta(optimizer: torch.optim.SGD, module: Slimmable) -> dict[str, Tensor]:
    """Momentum buffers by parameter name, made now so that a checkpoint can be read into them."""
    if optimizer.defaults["momentum"] == 0:
        return {}
    momenta = {}
    for name, parameter in module.named_parameters():
        parameter.grad = torch.zeros_like(parameter)
        momenta[name] = optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return momenta


def _prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}
