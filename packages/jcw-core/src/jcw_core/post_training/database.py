"""All that an architecture's weights are assembled from: dense weights, Gram matrices and orders of removal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from jcw_core.errors import FormatError, within_memory
from jcw_core.network.architecture import Architecture
from jcw_core.network.channel_groups import couple
from jcw_core.network.channel_order import Orders, features_in_order, permute_channels
from jcw_core.network.graph import Network
from jcw_core.network.operations import LAYERS
from jcw_core.network.weight_groups import weight_groups
from jcw_core.post_training.criteria import OBS
from jcw_core.post_training.importance import by_importance, check_importance
from jcw_core.post_training.rearrangement import rearranged
from jcw_core.post_training.refit import Inverses, mask_at, refit
from jcw_core.post_training.removal import Removal, removal_order
from jcw_core.post_training.statistics import gram_matrices
from jcw_core.protocols import Importance
from jcw_core.training import checkpoint
from jcw_core.training.execution import BatchNorm

_KIND = "jcw-post-training/1"


@dataclass(frozen=True)
class Database:
    """A dense network and, for each layer whose weights can be pruned, what is needed to prune it to any degree.

    Args:
        network: at full width.
        tensors: parameters and batch-norm statistics by state-dict name, channels most important first.
        grams: (D, D) by layer, (D,) of large ones.
        removals: by layer.
    """

    network: Network
    tensors: Mapping[str, Tensor]
    grams: Mapping[str, Tensor]
    removals: Mapping[str, Removal]
    _inverses: Inverses = field(default_factory=Inverses, init=False, repr=False, compare=False)

    @torch.no_grad()
    def weights(self, architecture: Architecture) -> dict[str, Tensor]:
        """The parameters of an architecture, cut and refitted, by state-dict name; statistics are left out."""
        coupling = couple(self.network)
        cut = {}
        for name in self.network.parameter_shapes:
            layer, _, key = name.rpartition(".")
            rows = torch.from_numpy(coupling.kept(layer, architecture.widths))
            if key == "weight" and layer in self.removals:
                cut[name] = self._pruned(layer, rows, architecture)
            else:
                cut[name] = self.tensors[name][rows]
                if key == "weight" and self._reads_all(layer):
                    kept = coupling.kept(self.network[layer].inputs[0], architecture.widths)
                    cut[name] = cut[name][:, torch.from_numpy(kept)]
        return cut

    def _reads_all(self, layer: str) -> bool:
        """Whether each output of a layer is made of all its inputs."""
        node = self.network[layer]
        return node.op in LAYERS and node.attributes.get("groups", 1) == 1

    def _pruned(self, layer: str, rows: Tensor, architecture: Architecture) -> Tensor:
        """The weights of one layer: of the rows that are kept, on the inputs that are kept."""
        source = self.network[layer].inputs[0]
        weight = self.tensors[f"{layer}.weight"]
        columns = torch.from_numpy(couple(self.network).kept(source, architecture.widths))
        density = architecture.densities.get(layer, 1.0)
        whole = len(rows) == weight.shape[0] and len(columns) == weight.shape[1]
        if density >= 1 and whole:
            return weight
        there = torch.zeros(weight.shape[1:], dtype=torch.bool)
        there[columns] = True
        removal, groups = self.removals[layer], weight_groups(len(rows))
        some = Removal(removal.order[:groups], removal.loss[:groups])
        with within_memory(f"layer {layer!r}, whose weights are fitted"):
            mask = mask_at(some, density, there.flatten())
            fitted = refit(
                weight[rows].flatten(1), self.grams[layer], mask, lambda gram: self._inverses.of(layer, gram)
            )
        return fitted.view(len(rows), *weight.shape[1:])[:, columns]

    def save(self, path: Path) -> None:
        """Write a safetensors file."""
        tensors = {f"tensor.{name}": tensor for name, tensor in self.tensors.items()}
        tensors |= {f"gram.{name}": tensor for name, tensor in self.grams.items()}
        for name, removal in self.removals.items():
            tensors |= {f"order.{name}": removal.order.to(torch.int32), f"loss.{name}": removal.loss}
        checkpoint.save(path, tensors, {"format": _KIND, "network": self.network.name})

    @classmethod
    def load(cls, path: Path, network: Network) -> Database:
        """Read what ``save`` wrote. Raises ``FormatError`` for anything else, or that of another network."""
        found, note = checkpoint.load(path)
        if note.get("format") != _KIND:
            raise FormatError(
                f"{path}: format is {note.get('format')!r:.40}, expected {_KIND!r}; make it again"
            )
        parts: dict[str, dict[str, Tensor]] = {kind: {} for kind in ("tensor", "gram", "order", "loss")}
        for name, tensor in found.items():
            kind, _, rest = name.partition(".")
            parts.setdefault(kind, {})[rest] = tensor
        expected = {**network.parameter_shapes, **network.buffer_shapes}
        if {n: tuple(t.shape) for n, t in parts["tensor"].items()} != expected:
            raise FormatError(f"{path}: belongs to another network than {network.name}; make it again")
        if not parts["gram"].keys() == parts["order"].keys() == parts["loss"].keys():
            raise FormatError(f"{path}: a layer lacks a part; make it again")
        removals = {n: Removal(o.long(), parts["loss"][n]) for n, o in parts["order"].items()}
        return cls(network, parts["tensor"], parts["gram"], removals)


def build(
    network: Network,
    tensors: Mapping[str, Tensor],
    calibration: Sequence[Tensor],
    importance: Importance = OBS,
    rearrange: bool = False,
    report: Callable[[int, int, str], None] = lambda done, total, detail: None,
    scratch: Path | None = None,
) -> Database:
    """Collect statistics, order the channels, and order the removals of every layer.

    Args:
        network: at full width.
        tensors: trained parameters and statistics by state-dict name.
        calibration: batches of normalised images (n, channels, height, width); no labels.
        importance: by which channels are ordered.
        rearrange: put rows that want the same inputs into one weight group.
        report: told how many of how many steps are done.
        scratch: folder that keeps each layer's order once it is found, for the same call to go on from; None for none.

    Raises:
        FormatError: what ``scratch`` keeps is damaged, or of another call.
        JcwError: memory does not suffice; the layer is named.
    """
    tensors, grams = ordered(network, tensors, calibration, importance, rearrange)
    removals = {}
    for done, (layer, gram) in enumerate(grams.items(), start=1):
        weight = tensors[f"{layer}.weight"].flatten(1)
        path = None if scratch is None else scratch / f"removal-{done}.safetensors"
        with within_memory(f"layer {layer!r}, whose inputs are removed one by one"):
            removals[layer] = _removal(weight, gram, path)
        report(done, len(grams), layer if gram.ndim == 2 else f"{layer} (cheaper mask)")
    return Database(network, tensors, grams, removals)


def _removal(weight: Tensor, gram: Tensor, path: Path | None) -> Removal:
    """A layer's order of removal (G, D), from the file at ``path`` if it is there, else put there."""
    if path is not None and path.is_file():
        found, _ = checkpoint.load(path)
        shape = (weight_groups(len(weight)), weight.shape[1])
        if found.keys() != {"order", "loss"} or {tuple(t.shape) for t in found.values()} != {shape}:
            raise FormatError(f"{path}: belongs to another layer; delete it and run again")
        return Removal(found["order"].long(), found["loss"])
    removal = removal_order(weight, gram)
    if path is not None:
        checkpoint.save(path, {"order": removal.order.to(torch.int32), "loss": removal.loss}, {})
    return removal


def ordered(
    network: Network,
    tensors: Mapping[str, Tensor],
    calibration: Sequence[Tensor],
    importance: Importance,
    rearrange: bool = False,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The same function with the most important channels of each group first.

    Args:
        network, tensors, calibration, importance, rearrange: as ``build`` takes them.

    Returns:
        parameters and statistics by state-dict name, and the Gram matrix (D, D) of each layer that can be pruned.
    """
    tensors = {name: tensor.detach().float() for name, tensor in tensors.items()}
    norm = BatchNorm({name: tensors[name] for name in network.buffer_shapes})
    grams = gram_matrices(network, tensors, norm, calibration)
    found = importance.measure(network, tensors, grams, calibration)
    order = by_importance(network, check_importance(importance.name, network, found))
    if rearrange:
        order = rearranged(network, tensors, grams, order)
    permuted = permute_channels(network, {name: t.numpy() for name, t in tensors.items()}, order)
    return {name: torch.from_numpy(array) for name, array in permuted.items()}, _permuted(
        network, grams, order
    )


def _permuted(network: Network, grams: Mapping[str, Tensor], orders: Orders) -> dict[str, Tensor]:
    """The Gram matrices of layers whose inputs come in a new order."""
    coupling, permuted = couple(network), {}
    for layer, gram in grams.items():
        features = torch.from_numpy(features_in_order(coupling, network[layer].inputs[0], orders))
        window = len(gram) // len(features)
        index = (features[:, None] * window + torch.arange(window)).flatten()
        permuted[layer] = gram[index][:, index] if gram.ndim == 2 else gram[index]
    return permuted
