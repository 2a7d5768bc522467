"""What a network makes: one output, or several that its last node joins to one vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jcw_core.network.graph import Network
from jcw_core.network.operations import Shape

JOINED = "outputs"
"""Name of the node that joins several outputs; those that flatten them are called ``outputs.NAME``, or by a number."""
ONLY = "output"
"""What the output of a network is called that has one."""


class Output(NamedTuple):
    """One of a network's outputs.

    Args:
        name: as the module returned it, else that of the node that makes it.
        source: name of that node.
        shape: without the batch axis.
    """

    name: str
    source: str
    shape: Shape


def outputs_of(network: Network) -> tuple[Output, ...]:
    """The outputs as ``NetworkBuilder.build_joined`` was given them, in the order in which they are joined."""
    last = network[network.output.inputs[0]]
    parts = [network[name] for name in last.inputs]
    if last.name != JOINED or last.op != "concat" or any(part.op != "flatten" for part in parts):
        return (Output(ONLY, last.name, network.shapes[last.name]),)
    found: dict[str, Output] = {}
    for part in parts:
        source, told = part.inputs[0], part.name.removeprefix(f"{JOINED}.")
        name = source if told.isdecimal() else told
        # A tensor of a file has one name, and no two have the same.
        if name in found or (name in network and (name != source or source == network.input.name)):
            name = part.name
        found[name] = Output(name, source, network.shapes[source])
    return tuple(found.values())


def shapes_of(network: Network) -> Mapping[str, Shape]:
    """Shape of each output by name, in their order."""
    return {output.name: output.shape for output in outputs_of(network)}


def makes_logits(network: Network) -> bool:
    """Whether the outputs are one vector of logits, or of probabilities, rather than maps, boxes or several of them."""
    shape, last = network.shapes[network.output.name], network[network.output.inputs[0]]
    return shape[0] == network.num_classes > 1 and last.op not in ("concat", "sigmoid", "hardsigmoid")
