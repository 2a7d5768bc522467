"""``Slimmable``: a network as a torch module that can act as any of its sub-networks."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from jcw_core.errors import FormatError, NetworkError
from jcw_core.network.architecture import Architecture
from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import CONVOLUTIONS, integer
from jcw_core.network.shrink import Weights
from jcw_core.ranks import Ranks
from jcw_core.training.execution import BatchNorm, execute
from jcw_core.training.masks import density_mask

MOMENTUM = 0.1
"""Weight of a batch in the running statistics of a network that is trained whole, torch's default."""


class Slimmable(nn.Module):
    """The trainable form of a ``Network``.

    Entries of its state dict are named after nodes, so torchvision's dicts load as they are. A
    sub-network takes the first channels of each group, then keeps the top density share of the
    remaining weight groups by L1 norm, layer by layer (section 2.4 of the paper).

    Args:
        network: at full width.
        rng: draws the initial weights: He's normal for convolutions, uniform for linear layers.

    Raises:
        NetworkError: a node bears the name of an attribute of torch's modules.
    """

    def __init__(self, network: Network, rng: np.random.Generator) -> None:
        super().__init__()
        self.trained_by = Ranks()
        """The processes that train it together, over which batch norm takes its statistics."""
        self._network = network
        for name, shape in network.parameter_shapes.items():
            holder, key = self._holder(name)
            holder.register_parameter(key, nn.Parameter(_initial(network, name, shape, rng)))
        for name, shape in network.buffer_shapes.items():
            holder, key = self._holder(name)
            holder.register_buffer(key, torch.full(shape, float(key == "running_var")))
        # Looked up once: walking the module tree costs more than slicing does.
        self._slots = [
            (node, [key for key in ("weight", "bias") if f"{node.name}.{key}" in network.parameter_shapes])
            for node in network
        ]

    @property
    def network(self) -> Network:
        """The network at full width."""
        return self._network

    def _holder(self, name: str) -> tuple[nn.Module, str]:
        *path, key = name.split(".")
        module: nn.Module = self
        for part in path:
            if part not in module._modules:
                try:
                    module.add_module(part, nn.Module())
                except KeyError:
                    raise NetworkError(
                        f"{self._network.name}: torch modules cannot hold a node named {part!r}; rename it"
                    ) from None
            module = module._modules[part]  # type: ignore[assignment]
        return module, key

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load a state dict; torch's own ``num_batches_tracked`` entries are passed over."""
        kept = {k: v for k, v in state_dict.items() if not k.endswith(".num_batches_tracked")}
        return super().load_state_dict(kept, strict=strict, assign=assign)

    def statistics(self) -> dict[str, Tensor]:
        """Running batch-norm statistics by state-dict name; the tensors themselves, not copies."""
        return dict(self.named_buffers())

    def subnetwork(self, architecture: Architecture | None = None) -> dict[str, Tensor]:
        """The parameters of a sub-network: cut to width and masked, differentiable.

        Returns:
            tensors by state-dict name; with None, the parameters themselves.
        """
        parameters: dict[str, Tensor] = dict(self.named_parameters())
        if architecture is None:
            return parameters
        return {
            name: tensor
            for node, keys in self._slots
            for name, tensor in self._cut(node, keys, parameters, architecture)
        }

    def _cut(
        self, node: Node, keys: list[str], parameters: dict[str, Tensor], architecture: Architecture
    ) -> list[tuple[str, Tensor]]:
        found = []
        for key in keys:
            name = f"{node.name}.{key}"
            tensor = self._take(parameters[name], 0, node.name, architecture)
            if key == "weight" and (node.op == "linear" or node.attributes.get("groups") == 1):
                tensor = self._take(tensor, 1, node.inputs[0], architecture)
                density = architecture.densities.get(node.name, 1.0)
                if density < 1:
                    tensor = tensor * density_mask(tensor, density, order=1)
            found.append((name, tensor))
        return found

    def _take(self, tensor: Tensor, axis: int, node: str, architecture: Architecture) -> Tensor:
        """Keep the channels of ``node``'s output along ``axis``."""
        coupling = couple(self._network)
        if len(coupling.layout[node]) == 1:
            return tensor.narrow(axis, 0, coupling.channels(node, architecture.widths))
        index = torch.from_numpy(coupling.kept(node, architecture.widths)).to(tensor.device)
        return tensor if len(index) == tensor.shape[axis] else tensor.index_select(axis, index)

    def forward(self, images: Tensor, architecture: Architecture | None = None) -> Tensor:
        """Logits (n, classes) of images (n, channels, height, width).

        In training mode batch norm uses the batch; only the whole network (``architecture`` None)
        records it. In evaluation mode a sub-network needs its own statistics: see ``calibration``.
        """
        if self.training:
            statistics, momentum = (None, None) if architecture else (self.statistics(), MOMENTUM)
            norm = BatchNorm(statistics, momentum, self.trained_by)
        elif architecture is None:
            norm = BatchNorm(self.statistics())
        else:
            raise ValueError("a sub-network has no running statistics; use calibration.calibrate")
        return execute(self._network, self.subnetwork(architecture), images, norm)

    def load_weights(self, weights: Weights) -> None:
        """Load numpy arrays by state-dict name; what ``weights`` lacks keeps its value.

        Raises:
            FormatError: an array is superfluous or has another shape.
        """
        state = self.state_dict()
        for name, array in weights.items():
            if name not in state or tuple(state[name].shape) != array.shape:
                found = f"no place for {name!r}" if name not in state else f"{name} is {array.shape}"
                raise FormatError(f"weights of {self._network.name}: {found}; they belong to another network")
            state[name].copy_(torch.from_numpy(np.array(array)))

    def weights(self) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
        """Copies of all parameters and statistics as float32 arrays."""
        return {
            name: tensor.detach().float().cpu().numpy().copy() for name, tensor in self.state_dict().items()
        }


def _initial(network: Network, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Tensor:
    node_name, _, key = name.rpartition(".")
    node = network[node_name]
    if node.op == "prelu":
        return torch.full(shape, 0.25)
    if node.op == "batch_norm" or len(shape) == 1:
        return torch.full(shape, float(node.op == "batch_norm" and key == "weight"))
    if node.op in CONVOLUTIONS:
        # Fan-out, so that signals keep their size on the way back (He et al. 2015).
        fan_out = shape[0] * prod(shape[2:]) // integer(node.attributes, "groups")
        return torch.from_numpy(
            rng.standard_normal(shape, dtype=np.float32) * np.float32((2 / fan_out) ** 0.5)
        )
    limit = shape[1] ** -0.5
    return torch.from_numpy(rng.uniform(-limit, limit, shape).astype(np.float32))
