"""Learning from the dense network: from its logits, its features, the labels, or some of each.

Logits are compared as in Hinton, Vinyals and Dean (2015): T^2 KL(softmax(t / T) || softmax(s / T)). Features are compared
layer by layer, for which a few images do and no class is known: what a layer puts out is to be what the dense one puts
out in the channels that are kept, and the squared error counts as a share of the energy of the latter, so that all
layers weigh the same (after FitNets, Romero et al. 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from torch import Tensor

from jcw_core.formats.safetensors_file import load_model
from jcw_core.network.architecture import Architecture
from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network, Node
from jcw_core.network.layers import fuse
from jcw_core.network.operations import ACTIVATIONS, LAYERS
from jcw_core.network.shrink import Weights
from jcw_core.post_training.database import Database
from jcw_core.protocols import Run
from jcw_core.run.records import SUPERNET
from jcw_core.supernet.options import SupernetOptions
from jcw_core.training.execution import BatchNorm, execute, may_overwrite
from jcw_core.training.module import MOMENTUM, Slimmable
from jcw_retrain.options import DistillationOptions, RetrainOptions
from jcw_retrain.pretrained import pretrained_weights

_TINY = 1e-12
"""Least energy that an error is a share of, for layers that put out nothing but zeros."""


@dataclass(frozen=True)
class Teacher:
    """A trained network at full width.

    Args:
        network: at full width.
        tensors: parameters and statistics by state-dict name, with the channels of a model's groups first.
    """

    network: Network
    tensors: Mapping[str, Tensor]

    @torch.no_grad()
    def answers(self, images: Tensor, nodes: frozenset[str]) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits (n, classes) of images (n, channels, height, width), and the outputs of some nodes."""
        norm = BatchNorm({name: self.tensors[name] for name in self.network.buffer_shapes})
        found: dict[str, Tensor] = {}
        logits = execute(self.network, self.tensors, images, norm, _keeping(nodes, found))
        return logits, found


def teacher_of(run: Run, baseline: Path, device: str = "cpu") -> Teacher | None:
    """The dense network that ``[retrain] teacher`` names; None where it asks for none.

    Args:
        run: whose recipe may bring the weights.
        baseline: the weights of the dense network that was trained as models are.
        device: of torch, where it is to answer.

    Raises:
        RecipeError: the weights that the recipe brings are asked for, and it brings none.
        FormatError: ``baseline`` is damaged, or the database of pruning after training, whose order of channels models have.
    """
    options = run.options(RetrainOptions)
    if options.teacher is None:
        return None
    tensors: Mapping[str, Tensor]
    if options.teacher == "baseline":
        tensors = _tensors(load_model(baseline).weights)
    elif options.init == "supernet" and run.options(SupernetOptions).mode == "post-training":
        tensors = Database.load(run.path(SUPERNET), run.network).tensors
    else:
        tensors = _tensors(pretrained_weights(run, "teacher"))
    return Teacher(run.network, {name: tensor.to(device) for name, tensor in tensors.items()})


def _tensors(weights: Weights) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}


@dataclass(frozen=True)
class Distillation:
    """What a model loses against its teacher, a ``jcw_core.training.loop.Criterion``.

    Args:
        teacher: the dense network.
        architecture: what the model keeps of it.
        options: weights of the parts, and temperature.
        label_smoothing: share of a label that is spread over all classes.
    """

    teacher: Teacher
    architecture: Architecture
    options: DistillationOptions
    label_smoothing: float = 0.0

    def __call__(self, module: Slimmable, images: Tensor, labels: Tensor) -> Tensor:
        """The loss on images (n, channels, height, width) of classes (n,), a scalar."""
        options = self.options
        nodes = frozenset(self._kept) if options.features else frozenset[str]()
        wanted, dense = self.teacher.answers(images, nodes)
        found: dict[str, Tensor] = {}
        norm = BatchNorm(module.statistics(), None if options.frozen_batch_norm else MOMENTUM)
        logits = execute(module.network, module.subnetwork(), images, norm, _keeping(nodes, found)).float()
        loss = logits.new_zeros(())
        if options.labels:
            smoothing = self.label_smoothing
            loss = loss + options.labels * F.cross_entropy(logits, labels, label_smoothing=smoothing)
        if options.logits:
            loss = loss + options.logits * divergence(logits, wanted.float(), options.temperature)
        if options.features:
            errors = [relative_error(found[name], dense[name][:, kept]) for name, kept in self._kept.items()]
            loss = loss + options.features * torch.stack(errors).mean()
        return loss

    @cached_property
    def _kept(self) -> dict[str, Tensor]:
        """The channels that the model has, by the nodes that are compared."""
        coupling = couple(self.teacher.network)
        return {
            name: torch.from_numpy(coupling.kept(name, self.architecture.widths))
            for name in compared_nodes(self.teacher.network)
        }


def compared_nodes(network: Network) -> tuple[str, ...]:
    """The outputs of convolutions and linear layers with all that fuses into them, but for those of the network."""
    parts = [part for layer in fuse(network) for part in layer.parts]
    found = [_what_stays(network, part.output) for part in parts if part.node.op in LAYERS]
    return tuple(dict.fromkeys(name for name in found if name not in network.output.inputs))


def _what_stays(network: Network, name: str) -> str:
    """The node that is there to be compared: activations take the place of what they read."""
    readers = (network[reader] for reader in network.consumers[name])
    over = (r.name for r in readers if r.op in ACTIVATIONS and may_overwrite(network, r))
    last = next(over, None)
    return name if last is None else _what_stays(network, last)


def divergence(logits: Tensor, wanted: Tensor, temperature: float) -> Tensor:
    """T^2 KL(softmax(wanted / T) || softmax(logits / T)), the mean over images, in nats.

    Args:
        logits, wanted: (n, classes).
        temperature: T; its square keeps gradients at one size (Hinton et al. 2015).
    """
    ours, theirs = (F.log_softmax(value / temperature, 1) for value in (logits, wanted))
    return temperature**2 * F.kl_div(ours, theirs, reduction="batchmean", log_target=True)


def relative_error(value: Tensor, wanted: Tensor) -> Tensor:
    """|value - wanted|^2 / |wanted|^2 over all entries."""
    value, wanted = value.float(), wanted.float()
    return (value - wanted).square().sum() / wanted.square().sum().clamp_min(_TINY)


def _keeping(nodes: frozenset[str], found: dict[str, Tensor]) -> Callable[[Node, Tensor], None]:
    def keep(node: Node, value: Tensor) -> None:
        if node.name in nodes:
            found[node.name] = value

    return keep
