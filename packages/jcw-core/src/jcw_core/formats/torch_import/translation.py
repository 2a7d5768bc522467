"""A network under construction: what every value of an exported module is in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx

from jcw_core.errors import FormatError
from jcw_core.formats.ones import Made, picking
from jcw_core.formats.torch_import.exported import Exported, Operator
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.model import Model
from jcw_core.network.operations import LAYERS, Attribute


class Obstacle(Exception):  # noqa: N818  collected, and told of together
    """Something that has no place in a network; ``is_new`` unless it only follows from an earlier one."""

    def __init__(self, message: str, *, is_new: bool = True) -> None:
        super().__init__(message)
        self.is_new = is_new


@dataclass(frozen=True, slots=True)
class Padded:
    """A node with a constant around its planes, which is part of the windows that read it.

    Args:
        source: a node of the network.
        sides: (top, left, bottom, right).
        fill: the constant.
    """

    source: str
    sides: tuple[int, int, int, int]
    fill: float


@dataclass(frozen=True, slots=True)
class Grouped:
    """The planes of a node with its channels taken apart into groups, (groups, channels per group), or the other way round."""

    source: str
    groups: int
    is_turned: bool = False


Value = str | Tensor | Padded | Grouped | list[Any] | None
"""A node of the network by name, a tensor that does not depend on the image, one to be padded or shuffled, several values, or what
had no place."""


class Translation:
    """A network under construction.

    Args:
        exported: what is translated.
        name: of the network.
    """

    def __init__(self, exported: Exported, name: str) -> None:
        self._exported = exported
        self.builder = NetworkBuilder(name, exported.input_shape)
        self._values: dict[str, Value] = {**exported.tensors, exported.input: self.builder.last}
        self._weights: dict[str, NDArray[np.float32]] = {}
        self._names = {self.builder.last, "output"}
        self._layers: dict[str, str] = {}

    def __setitem__(self, name: str, value: Value) -> None:
        self._values[name] = value

    def give_up(self, name: str) -> None:
        """Note that a value has no place, so that what reads it is no obstacle of its own."""
        self._values[name] = None

    def value(self, argument: Any) -> Value:
        """What an argument of an operator stands for."""
        if not isinstance(argument, fx.Node):
            raise Obstacle(f"reads {argument!r:.40}, expected a tensor")
        found = self._values.get(argument.name)
        if found is None:
            raise Obstacle(f"reads {argument.name}", is_new=False)
        return found

    def node(self, argument: Any) -> str:
        """The node that an argument stands for."""
        if isinstance(found := self.value(argument), Padded):
            found = self._whole(argument.name)
        if not isinstance(found, str):
            raise Obstacle("reads a constant, expected a value that depends on the image")
        return found

    def padded(self, argument: Any, fill: float = 0.0) -> tuple[str, tuple[int, int, int, int]]:
        """The node that an argument of a window stands for, and how much of ``fill`` is to be put around it."""
        found = self.value(argument)
        if not isinstance(found, Padded):
            return self.node(argument), (0, 0, 0, 0)
        if found.fill == fill:
            return found.source, found.sides
        if found.fill == 0:
            return self.node(argument), (0, 0, 0, 0)
        raise Obstacle(f"reads planes padded with {found.fill:g}, expected {fill:g}")

    def _whole(self, name: str) -> Value:
        """The value of a name; planes that are to be padded are now, with zeros around them."""
        value = self._values[name]
        if not isinstance(value, Padded):
            return value
        if value.fill != 0:
            raise Obstacle(f"reads planes padded with {value.fill:g}; only 0 has a place outside of windows")
        made = self._values[name] = self.append_made(
            name, value.source, picking(self.builder.channels(value.source), padding=value.sides)
        )
        return made

    def append_made(self, name: str, source: str, made: Made) -> str:
        """Append a convolution of ones and zeros, named after ``name``."""
        weights, attributes = made
        tensors = {"weight": torch.from_numpy(weights)}
        return self._with_weights(self._free(_plain(name)), "conv2d", source, tensors, dict(attributes))

    def constant(self, argument: Any) -> Tensor:
        """The tensor that an argument stands for, which does not depend on the image."""
        found = self.value(argument)
        if not isinstance(found, Tensor):
            raise Obstacle(f"reads {argument.name}, which depends on the image, as weights")
        return found

    def append(self, operator: Operator, op: str, *sources: str, **attributes: Attribute) -> str:
        """Append a node that is named after an operator."""
        return self.builder.add(self._free(_plain(operator.name)), op, *sources, **attributes)

    def append_weighted(
        self,
        operator: Operator,
        weight: Any,
        op: str,
        source: str,
        weights: dict[str, Tensor],
        **attributes: Attribute,
    ) -> str:
        """Append a node with weights, named after the module that holds them.

        Args:
            operator: its module names the node, where that has a weight of its own.
            weight: the argument whose owner names the node where not; None to name it after the operator.
            weights: by key, e.g. ``weight``.
        """
        value = getattr(weight, "name", "")
        if weight is None:
            return self._with_weights(self._free(_plain(operator.name)), op, source, weights, attributes)
        owner, _, key = self._exported.parameters.get(value, "").rpartition(".")
        # Torch has one name for a weight that two modules share.
        if f"{operator.module}.{key}" in self._exported.names:
            owner = operator.module
        name = self._free(_plain(owner) or op)
        first = self._layers.setdefault(self._exported.same.get(value, value), name)
        if first != name and op in LAYERS:
            attributes["shares"] = first
        return self._with_weights(name, op, source, weights, attributes)

    def _with_weights(
        self, name: str, op: str, source: str, weights: dict[str, Tensor], attributes: dict[str, Attribute]
    ) -> str:
        added = self.builder.add(name, op, source, **attributes)
        for key, tensor in weights.items():
            self._weights[f"{name}.{key}"] = tensor.float().numpy().copy()
        return added

    def _free(self, stem: str) -> str:
        """A name that no node has yet: a module that is called twice makes two."""
        name, number = stem, 1
        while name in self._names:
            number += 1
            name = f"{stem}_{number}"
        self._names.add(name)
        return name

    def model(self) -> Model:
        """The network that ends with the module's outputs; several are flattened and joined in their order."""
        try:
            ends = [self._whole(name) for name in self._exported.outputs]
        except Obstacle as error:
            raise FormatError(f"an output {error}") from None
        if not all(isinstance(end, str) for end in ends):
            raise FormatError("an output does not depend on the image")
        names = [_plain(name) for name in self._exported.output_names]
        return Model(self.builder.build_joined([str(end) for end in ends], names), self._weights)


def _plain(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "_", path).strip("._")
