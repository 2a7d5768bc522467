"""The training loop: SGD with a checkpoint after every epoch, and within those that take long.

Everything random in epoch e comes from a generator that depends on e alone, so a run that was
killed goes on from its last checkpoint and ends with the same bits as one that was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from torch import Tensor

from jcw_core.errors import FormatError, JcwError
from jcw_core.logs import logger
from jcw_core.network.architecture import Architecture
from jcw_core.ranks import Ranks
from jcw_core.training import checkpoint
from jcw_core.training.accelerator import training_within_memory
from jcw_core.training.batches import Batch, TrainingImages, laid_out
from jcw_core.training.divergence import bad_gradient, bad_output, bad_state
from jcw_core.training.module import Slimmable
from jcw_core.training.optimizer import WeightAverage, learning_rate, momenta, sgd
from jcw_core.training.options import Arithmetic, TrainingOptions
from jcw_core.training.precision import computing
from jcw_core.training.together import share_gradients

Subnetworks = Sequence[Architecture | None]
"""What one step trains; None is the whole network. The first learns from the labels, the others from
what the first says of the images (in-place distillation, Yu and Huang 2019)."""

Criterion = Callable[[Slimmable, Tensor, Tensor], Tensor]
"""The loss of the whole network on normalised images (n, channels, height, width) and their classes (n,), a scalar."""


CHECKPOINT_SECONDS = 600.0
"""Of an epoch, after which a checkpoint is written within it."""

_log = logger(__name__)


class Stopped(Exception):  # noqa: N818  not a failure
    """Training ended early because it was told to; its checkpoint is that of the last whole epoch."""


class Method:
    """What a way of training adds to plain SGD on the whole network. Override what differs."""

    def subnetworks(self, epoch: int, steps: int, rng: np.random.Generator) -> Iterator[Subnetworks]:
        """The sub-networks of each step of an epoch, the whole network by default."""
        return iter([(None,)] * steps)

    def adjust_gradients(self) -> None:
        """Called when gradients are there, before weights change."""

    def end_epoch(self, epoch: int) -> None:
        """Called when the last step of an epoch, counted from 0, is done."""

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


@dataclass(frozen=True, slots=True)
class Position:
    """Where a training stands, as its checkpoint says.

    Args:
        epochs: that are done.
        steps: of the next one that are done.
        loss: sum over these steps.
    """

    epochs: int = 0
    steps: int = 0
    loss: float = 0.0

    @classmethod
    def read(cls, path: Path, note: Mapping[str, Any]) -> Position:
        """From the header of a checkpoint. Raises ``FormatError``."""
        steps, loss = note.get("steps", 0), note.get("loss", 0.0)
        for key, count in (("epochs", note.get("epochs")), ("steps", steps)):
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise FormatError(
                    f"{path}: its header says {count!r:.60} for {key}, expected a whole number; "
                    "delete it and run again"
                )
        if not isinstance(loss, float) or not math.isfinite(loss):
            raise FormatError(f"{path}: its header says {loss!r:.60} for loss; delete it and run again")
        return cls(note["epochs"], steps, loss)


@dataclass(frozen=True)
class Training:
    """One stretch of training.

    Args:
        module: changed in place, on the device of ``arithmetic``.
        images: training images.
        options: of SGD.
        arithmetic: precision.
        rng: the generator of an epoch, by its number.
        path: the checkpoint.
        report: called after every epoch, once its checkpoint is written.
        method: what is trained beside plain SGD.
        stop: when set by another thread, training raises ``Stopped`` at its next step.
        criterion: in place of the cross-entropy of the whole network; None for that.
        ranks: the processes that train the module together, each on its part of every batch; the first alone writes
            the checkpoint, which any number of processes goes on from. Losses and weights are those of one process.
        key: of the batch size in the recipe, for an error that names it.
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
    criterion: Criterion | None = None
    ranks: Ranks = field(default_factory=Ranks)
    key: str = "batch_size"

    def run(self) -> None:
        """Train to the end, from the checkpoint if there is one.

        Raises:
            JcwError: training diverged; the checkpoint is that of the last epoch whose numbers are good.
            FormatError: the checkpoint belongs to another network.
            DataError: fewer images than one batch.
        """
        with training_within_memory(
            self.key, self.options.batch_size, self.arithmetic, self._trial, self.ranks.size
        ):
            self._run()

    def _run(self) -> None:
        optimizer = sgd(self.module, self.options)
        average = WeightAverage(self.module, self.options.ema)
        state = {
            **_prefixed("model", self.module.state_dict()),
            **_prefixed("momentum", momenta(optimizer, self.module)),
            **_prefixed("average", average.state()),
            **_prefixed("method", self.method.state()),
        }
        # The others need not see the files of the first.
        at = self.ranks.first(lambda: self._resume(state))
        for tensor in state.values():
            self.ranks.copy(tensor)
        self.module.trained_by = self.ranks
        self.module.train()
        while at.epochs < self.options.epochs:
            began = time.perf_counter()
            loss = self._epoch(at, optimizer, average, state)
            self.method.end_epoch(at.epochs)
            at = Position(at.epochs + 1)
            self._save(state, at)
            self.report(EpochReport(at.epochs, self.options.epochs, loss, time.perf_counter() - began))
        average.apply()
        self.module.eval()

    def _trial(self, count: int) -> None:
        """A step of ``count`` images by this process alone, through the whole network, which takes the most memory."""
        self.module.trained_by = Ranks()
        shape, device = self.module.network.input_shape, self.arithmetic.device
        images = laid_out(torch.zeros(count, *shape, device=device), self.arithmetic)
        with computing(self.arithmetic):
            labels = torch.zeros(count, dtype=torch.int64, device=device)
            if self.criterion is not None:
                loss = self.criterion(self.module, images, labels)
            else:
                loss = F.cross_entropy(self.module(images).float(), labels)
        loss.backward()  # type: ignore[no-untyped-call]

    def _resume(self, state: dict[str, Tensor]) -> Position:
        if not self.path.is_file():
            return Position()
        found, note = checkpoint.load(self.path)
        checkpoint.load_into(state, found, self.path)
        at = Position.read(self.path, note)
        _log.info(
            "%d of %d epochs and %d steps are done in %s, which is gone on from",
            at.epochs,
            self.options.epochs,
            at.steps,
            self.path,
        )
        return at

    def _save(self, state: dict[str, Tensor], at: Position) -> None:
        if not self.ranks.is_first:
            return
        checkpoint.save(self.path, state, asdict(at))
        _log.debug(
            "%d of %d epochs and %d steps: wrote %s", at.epochs, self.options.epochs, at.steps, self.path
        )

    def _epoch(
        self,
        at: Position,
        optimizer: torch.optim.Optimizer,
        average: WeightAverage,
        state: dict[str, Tensor],
    ) -> float:
        """Train from where an epoch stands to its end; the mean loss of its steps is returned."""
        epoch, rng, size = at.epochs, self.rng(at.epochs), self.options.batch_size
        steps, total, saved = self.images.steps(size), at.loss, time.perf_counter()
        subnetworks = islice(self.method.subnetworks(epoch, steps, rng), at.steps, None)
        # Without a name of their own batches are not held by an error, and the threads that make them end with the loop.
        for step, batch in enumerate(self.images.epoch(size, rng, self.ranks, at.steps), start=at.steps):
            if self.stop.is_set():
                raise Stopped
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(self.options, epoch + step / steps)
            optimizer.zero_grad(set_to_none=False)
            total += self._backward(batch, next(subnetworks), epoch)
            share_gradients(self.module, self.ranks)
            self.method.adjust_gradients()
            self._require(bad_gradient(self.module), epoch)
            optimizer.step()
            average.update(epoch * steps + step)
            if time.perf_counter() - saved > CHECKPOINT_SECONDS and step + 1 < steps:
                self._require(bad_state(self.module), epoch)
                self._save(state, Position(epoch, step + 1, total))
                saved = time.perf_counter()
        self._require(bad_state(self.module), epoch)
        return total / steps

    def _backward(self, batch: Batch, subnetworks: Subnetworks, epoch: int) -> float:
        """Add the gradients of all sub-networks of a step; the loss of the first is returned."""
        images, labels = batch
        if self.criterion is not None:
            with computing(self.arithmetic):
                loss = self.criterion(self.module, images, labels)
            return self._descend(loss, images, None, epoch)
        target, smoothing, losses = labels, self.options.label_smoothing, []
        for architecture in subnetworks:
            with computing(self.arithmetic):
                logits = self.module(images, architecture)
            loss = F.cross_entropy(logits.float(), target, label_smoothing=smoothing)
            losses.append(self._descend(loss, images, architecture, epoch))
            if target is labels:
                target, smoothing = logits.detach().float().softmax(1), 0.0
        return losses[0]

    def _descend(self, loss: Tensor, images: Tensor, architecture: Architecture | None, epoch: int) -> float:
        """Add the gradients of a loss, the mean over this process's images; its value for the whole batch is returned."""
        if self.ranks.size > 1:
            loss = loss * (len(images) / self.options.batch_size)
        whole = loss.detach().clone()
        self.ranks.add(whole)
        value = whole.item()
        if not math.isfinite(value):
            self._require(bad_output(self.module, images, architecture, self.arithmetic), epoch)
        loss.backward()  # type: ignore[no-untyped-call]
        return value

    def _require(self, problem: str | None, epoch: int) -> None:
        """Raise for a problem that was found."""
        if problem is None:
            return
        kept = f"; {self.path} keeps epoch {epoch}" if self.path.is_file() else ""
        raise JcwError(
            f"training of {self.module.network.name} diverged in epoch {epoch + 1}: {problem}; "
            f"lower lr (it is {self.options.lr}){kept}"
        )


def _prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}
